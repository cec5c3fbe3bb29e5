"""Convolutions on a GPU whose windows tile their image: PyTorch's (cuDNN's), and as products, forward and with both gradients, compared before
anything is timed. `multiply-tiles` takes windows of several elements; here it takes those of one too.

python -m benchmarks.tiled_convolutions [--json FILE]
"""

import argparse
from unittest.mock import patch

import torch
from bascule.frontend.fx_passes import tiled_convolutions
from torch import Tensor
from torch.nn import functional as F

from .convolutions import compared
from .kernels import FLUSH
from .measure import geometric_mean, print_table, save

# batch, channels, rows, columns; channels out, window; whether memory runs along the channels; whether transposed
SIZES = (
    (64, 3, 224, 224, 768, 16, True, False),
    (64, 3, 224, 224, 768, 16, False, False),
    (64, 3, 224, 224, 1280, 14, False, False),
    (64, 3, 224, 224, 96, 4, True, False),
    (64, 96, 56, 56, 192, 2, True, False),
    (64, 384, 14, 14, 768, 2, True, False),
    (64, 96, 56, 56, 192, 2, False, False),
    (16, 256, 64, 64, 256, 8, False, False),
    (8, 512, 28, 28, 256, 2, True, True),
    (8, 64, 224, 224, 32, 2, False, True),
    (64, 64, 56, 56, 256, 1, True, False),
    (64, 256, 56, 56, 64, 1, True, False),
    (64, 1024, 14, 14, 256, 1, True, False),
    (64, 512, 7, 7, 2048, 1, True, False),
    (128, 40, 28, 28, 120, 1, True, False),
    (128, 960, 7, 7, 160, 1, True, False),
    (64, 256, 56, 56, 64, 1, False, False),
)


def measure(sizes: tuple, dtype: torch.dtype, scratch: Tensor) -> dict:
    """One row: milliseconds of the forward, and of it with the backward."""
    n, c, h, w, o, k, channels_last, transposed = sizes

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return (F.conv_transpose2d if transposed else F.conv2d)(x, weight, stride=k)

    torch.manual_seed(0)
    form = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.randn(n, c, h, w, device="cuda", dtype=dtype).contiguous(memory_format=form)
    weight = torch.randn(*((c, o) if transposed else (o, c)), k, k, device="cuda", dtype=dtype) / k
    inputs = [x.requires_grad_(), weight.contiguous(memory_format=form).requires_grad_()]
    row: dict = {"sizes": " x ".join(map(str, sizes[:4])), "out": o, "window": k, "channels last": channels_last}
    row |= {"transposed": transposed, "dtype": str(dtype)[6:]}
    return row | compared(run, inputs, _check, scratch, torch.no_grad, cache=False)


def _check(got: Tensor, want: Tensor) -> None:
    distance = ((got - want).norm() / want.norm()).item()
    assert distance < 1e-2, distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    scratch = torch.empty(FLUSH // 4, device="cuda")
    with patch.object(tiled_convolutions, "pays", lambda *_: True):
        rows = [measure(sizes, torch.bfloat16, scratch) for sizes in SIZES]
    print_table(list(rows[0]), [[f"{x:.3f}" if isinstance(x, float) else str(x) for x in row.values()] for row in rows])
    print(f"geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}")
    save("tiled convolutions, milliseconds", rows, arguments.json, device=torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
