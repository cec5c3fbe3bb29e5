"""Activations before depthwise convolutions on a GPU, forward in bf16: computed again in each window, and stored. Results are compared with
eager in f64 before anything is timed. `WINDOWED` of `passes/tensor/inline_producers.py` was chosen by it.

python -m benchmarks.window_prologues [--json FILE]
"""

import argparse
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import torch
from bascule.dialect.passes.tensor import inline_producers
from torch import Tensor
from torch.nn import functional as F

from .kernels import FLUSH, gpu_ms
from .measure import print_table, save

HOST = 0.3  # milliseconds that issuing a forward takes, at most
WAYS = {"again": float("inf"), "stored": 0.0}  # way -> `WINDOWED`
# batch, channels, rows and columns, window; whether memory runs along the channels
SIZES = (
    (128, 64, 56, 3, False),
    (128, 120, 28, 3, True),
    (128, 120, 28, 5, False),
    (128, 120, 28, 5, True),
    (128, 672, 14, 5, True),
    (64, 96, 28, 7, False),
    (64, 96, 28, 7, True),
)
BEFORE: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "hardswish": F.hardswish, "silu": F.silu}


def convolved(before: str, x: Tensor, weight: Tensor, *statistics: Tensor) -> Tensor:
    """A depthwise convolution of `before` of a batch norm of x; `statistics`: mean, variance, scale and shift of each channel."""
    mean, variance, scale, shift = statistics
    normal = F.batch_norm(x, mean, variance, scale, shift)
    return F.conv2d(BEFORE[before](normal), weight, padding=weight.shape[-1] // 2, groups=x.shape[1])


def measure(sizes: tuple, before: str, scratch: Tensor) -> dict:
    """One row: milliseconds of each way, and `pass`: of that which is compiled."""
    n, c, h, k, channels_last = sizes
    torch.manual_seed(0)
    form = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.randn(n, c, h, h, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=form)
    weight = torch.randn(c, 1, k, k, device="cuda", dtype=torch.bfloat16) / k
    inputs = [x, weight, *(torch.rand(c, device="cuda") + 0.5 for _ in range(4))]
    run = partial(convolved, before)
    want = run(*(value.double() for value in inputs))
    row: dict = {"sizes": f"{n} x {c} x {h} x {h}", "window": k, "channels last": channels_last, "before": before}
    for way, windowed in (*WAYS.items(), ("pass", inline_producers.WINDOWED)):
        torch._dynamo.reset()
        with patch.object(inline_producers, "WINDOWED", windowed), torch.no_grad():
            compiled = torch.compile(run, backend="bascule", options={"on_error": "raise", "cache": False})
            distance = ((compiled(*inputs) - want).norm() / want.norm()).item()
            assert distance < 1e-2, distance
            row[way] = gpu_ms(partial(compiled, *inputs), scratch, HOST)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    scratch = torch.empty(FLUSH // 4, device="cuda")
    rows = [measure(sizes, before, scratch) for sizes in SIZES for before in BEFORE]
    print_table(list(rows[0]), [[f"{x:.4f}" if isinstance(x, float) else str(x) for x in row.values()] for row in rows])
    save("before depthwise convolutions, milliseconds", rows, arguments.json, device=torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
