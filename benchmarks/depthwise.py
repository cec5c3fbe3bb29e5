"""Depthwise convolutions on a GPU, forward and with both gradients: PyTorch's (cuDNN's) and Bascule, results compared before anything is timed.

python -m benchmarks.depthwise [--json FILE]
python -m benchmarks.depthwise --cuts    # the gradient of the weight, its sum cut in every way, beside the model's choice
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any
from unittest.mock import patch

import torch
from bascule.dialect.passes.tensor import split_reductions
from torch import Tensor
from torch.nn import functional as F

from .convolutions import compared
from .kernels import FLUSH, gpu_ms
from .measure import geometric_mean, print_table, save

# batch, channels, rows, columns; window, stride, padding
SIZES = (
    (32, 96, 56, 56, 7, 1, 3),
    (32, 192, 28, 28, 7, 1, 3),
    (32, 384, 14, 14, 7, 1, 3),
    (32, 768, 7, 7, 7, 1, 3),
    (128, 64, 56, 56, 3, 1, 1),
    (128, 64, 112, 112, 3, 2, 1),
    (128, 240, 14, 14, 3, 1, 1),
    (128, 120, 28, 28, 5, 1, 2),
    (128, 960, 7, 7, 5, 1, 2),
    (32, 96, 23, 29, 5, 1, 2),
)


def measure(sizes: tuple[int, ...], dtype: torch.dtype, scratch: Tensor) -> dict:
    """One row: milliseconds of the forward, and of it with the backward."""
    n, c, h, w, k, stride, padding = sizes

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, None, stride, padding, groups=c)

    torch.manual_seed(0)
    x = torch.randn(n, c, h, w, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    inputs = [x.requires_grad_(), (torch.randn(c, 1, k, k, device="cuda", dtype=dtype) / k).requires_grad_()]
    row: dict = {"sizes": " x ".join(map(str, sizes[:4])), "window": k, "stride": stride, "dtype": str(dtype)[6:]}
    return row | compared(run, inputs, _check, scratch)


def of_cuts(sizes: tuple[int, ...], dtype: torch.dtype, scratch: Tensor) -> list[dict]:
    """Rows: into how many chunks, of how many places, the sum of the weight's gradient is cut, milliseconds, the model's choice."""
    n, c, h, w, k, stride, padding = sizes
    torch.manual_seed(0)
    x = torch.randn(n, c, h, w, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(c, 1, k, k, device="cuda", dtype=dtype)
    seed = torch.randn_like(F.conv2d(x, weight, None, stride, padding, groups=c))

    def gradient(x: Tensor, weight: Tensor, seed: Tensor) -> Tensor:
        sides = [stride] * 2, [padding] * 2, [1, 1]
        mask = [False, True, False]
        return torch.ops.aten.convolution_backward(seed, x, weight, None, *sides, False, [0, 0], c, mask)[1]

    want = gradient(x.float(), weight.float(), seed.float()).double()
    told = {"sizes": " x ".join(map(str, sizes[:4])), "window": k, "stride": stride, "dtype": str(dtype)[6:]}
    rows, cuts = list[dict](), list[Any]([None])
    while len(rows) < len(cuts):
        torch._dynamo.reset()
        with patch.object(split_reductions._Graph, "_balanced", _cut_as(len(rows), cuts)):
            compiled = torch.compile(gradient, backend="bascule", dynamic=False, options={"on_error": "raise"})
            _check(compiled(x, weight, seed), want)
        taken, chosen = cuts[len(rows)]
        row = {"chunks": prod(taken.outer), "places": prod(taken.inner)}
        row |= {"ms": gpu_ms(partial(compiled, x, weight, seed), scratch), "chosen": "yes" if taken == chosen else ""}
        rows.append(told | row)
    return rows


def _cut_as(number: int, cuts: list) -> Callable:
    """In place of the model's choice the cut of that number; leaves in `cuts` all that it chooses from, each beside the choice."""
    model = split_reductions._Graph._balanced

    def taken(self: Any, window: Any, member: Any, ranges: Sequence[int], pieces: int) -> Any:
        chosen = model(self, window, member, ranges, pieces)
        cuts[:] = [(each, chosen) for each in split_reductions.cuts_near(ranges, pieces)]
        return cuts[number][0]

    return taken


def _check(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-2 * want.abs().mean().item())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--cuts", action="store_true")
    arguments = parser.parse_args()
    scratch = torch.empty(FLUSH // 4, device="cuda")
    if arguments.cuts:
        rows = [row for sizes in SIZES for row in of_cuts(sizes, torch.bfloat16, scratch)]
        print_table(
            list(rows[0]), [[f"{x:.4f}" if isinstance(x, float) else str(x) for x in row.values()] for row in rows]
        )
        save(
            "cuts of the sums of depthwise weights' gradients, milliseconds",
            rows,
            arguments.json,
            device=torch.cuda.get_device_name(),
        )
        return
    rows = [measure(sizes, torch.bfloat16, scratch) for sizes in SIZES]
    print_table(list(rows[0]), [[x if isinstance(x, str) else f"{x:.3f}" for x in row.values()] for row in rows])
    print(f"geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}")
    save("depthwise convolutions, milliseconds", rows, arguments.json, device=torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
