"""Depthwise convolutions on a GPU, forward and with both gradients: PyTorch's (cuDNN's) and Bascule, results compared before anything is timed.

python -m benchmarks.depthwise [--json FILE]
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from .convolutions import compared
from .kernels import FLUSH
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


def _check(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-2 * want.abs().mean().item())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    scratch = torch.empty(FLUSH // 4, device="cuda")
    rows = [measure(sizes, torch.bfloat16, scratch) for sizes in SIZES]
    print_table(list(rows[0]), [[x if isinstance(x, str) else f"{x:.3f}" for x in row.values()] for row in rows])
    print(f"geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}")
    save("depthwise convolutions, milliseconds", rows, arguments.json, device=torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
