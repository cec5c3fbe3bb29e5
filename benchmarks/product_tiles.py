"""Linear layers of 16 bits on a GPU with what follows them, as three schedules have them: one program of a multiprocessor that takes tile after
tile, two of half of a tile each, and one of which a warp group loads for others. Each result is compared with f32 before it is timed.

    python -m benchmarks.product_tiles [--json FILE]

`STEPS` and `TURNS` of `dialect/scheduling/gpu/contractions.py` say from this which one a product has.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

os.environ["BASCULE_CACHE_DIR"] = ""  # a schedule is not to be found by the next

import torch
from bascule.dialect.scheduling.gpu import contractions
from torch import Tensor
from torch.nn import functional as F

from bascule.pipelines import DEFAULT

from .kernels import FLUSH, gpu_ms
from .measure import geometric_mean, print_table, save

Layer = Callable[..., Tensor]
EVERY = 1 << 30
SCHEDULES: dict[str, dict[str, object]] = {  # what is patched in `contractions`
    "one program": {"STEPS": 0},
    "two programs": {"STEPS": EVERY, "TURNS": EVERY},
    "warp groups": {"STEPS": EVERY, "TURNS": 1, "_reads_more": lambda domain: False},
}
PIPELINE = ",".join("expand-products{contractions=true}" if name == "expand-products" else name for name in DEFAULT)
LAYERS: dict[str, Layer] = {
    "nothing": lambda x, w: x @ w.t(),
    "gelu": lambda x, w: F.gelu(x @ w.t()),
    "bias, relu": lambda x, w, b: F.relu(F.linear(x, w, b)),
    "bias, gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "bias, residual": lambda x, w, b, r: F.linear(x, w, b) + r,
}
CASES = (  # what follows; rows, length of the sums, columns
    *(("nothing", 16384, 768, 30528), ("gelu", 16384, 768, 30528), ("bias, relu", 32768, 512, 16384)),
    *(("bias, gelu", 65536, 256, 4096), ("bias, gelu", 32768, 512, 2048), ("bias, gelu", 16384, 768, 3072)),
    *(("bias, gelu", 16384, 1536, 6144), ("bias, gelu", 4096, 4096, 4096), ("bias, residual", 131072, 256, 256)),
    *(("bias, residual", 16384, 768, 768), ("bias, residual", 16384, 2048, 8192), ("bias, residual", 8192, 2560, 8192)),
    *(("bias, residual", 16384, 3072, 768), ("bias, residual", 8192, 8192, 2048)),
)


def inputs(follows: str, rows: int, summed: int, columns: int) -> list[Tensor]:
    torch.manual_seed(0)
    sizes = [(rows, summed), (columns, summed), (columns,), (rows, columns)]
    return [
        torch.randn(*size, device="cuda", dtype=torch.bfloat16) / 8
        for size in sizes[: 2 + ("bias" in follows) + ("residual" in follows)]
    ]


@contextmanager
def schedule(name: str) -> Iterator[None]:
    """In which products have it, where it can have them."""
    with ExitStack() as stack:
        for constant, changed in SCHEDULES[name].items():
            stack.enter_context(patch.object(contractions, constant, changed))
        yield


def measure(follows: str, sizes: tuple[int, int, int], scratch: Tensor) -> dict:
    """One row: milliseconds of eager and of each schedule."""
    layer, given = LAYERS[follows], inputs(follows, *sizes)
    exact, eager = layer(*[x.float() for x in given]), layer(*given)
    most = 1.5 * (eager.float() - exact).abs().max()
    row: dict = {
        "follows": follows,
        "sizes": " x ".join(map(str, sizes)),
        "eager": gpu_ms(partial(layer, *given), scratch),
    }
    for name in SCHEDULES:
        torch._dynamo.reset()
        options = {"on_error": "raise", "pipeline": PIPELINE}
        compiled = torch.compile(layer, backend="bascule", dynamic=False, options=options)
        with schedule(name):
            found = compiled(*given)
        assert (found.float() - exact).abs().max() <= most, (name, follows, sizes)
        del found
        row[name] = gpu_ms(partial(compiled, *given), scratch)
    return row


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    scratch = torch.empty(FLUSH, dtype=torch.int8, device="cuda")
    rows = [measure(follows, sizes, scratch) for follows, *sizes in CASES]
    print_table(list(rows[0]), [[f"{x:.4f}" if isinstance(x, float) else str(x) for x in row.values()] for row in rows])
    for name in SCHEDULES:
        print(f"{name} / one program: {geometric_mean([row[name] / row['one program'] for row in rows]):.3f}")
    save("tiles of products, milliseconds", rows, arguments.json, device=torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
