"""The numbers of a stream by PyTorch's operators, many at once: those that a kernel draws, as `dialect/ir/philox.py` says.

A counter gives four numbers of 32 bits, or two of 64, so that one pass over the counters gives all. On a CPU they are made in pieces that stay
in its cache.
"""

from dataclasses import dataclass
from typing import Any

import torch

from ..dialect.ir.philox import NUMBERS, Floats, Words, drawn, number, philox

LOW = 0xFFFFFFFF
PIECE = {"cpu": 1 << 14, "cuda": 1 << 22}  # counters at once

_FLOATS = {
    "arith.addf": torch.add,
    "arith.mulf": torch.mul,
    "math.log": torch.log,
    "math.sqrt": torch.sqrt,
    "math.cos": torch.cos,
}


class _Words(Words[torch.Tensor]):
    """int64 tensors in [0, 2**32). A product of two words is right modulo 2**64, whatever its sign."""

    def add(self, x: Any, number: int) -> Any:
        return (x + number) & LOW

    def xor(self, x: torch.Tensor, y: Any) -> torch.Tensor:
        return x ^ y

    def product(self, x: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        whole = x * number
        return whole & LOW, (whole >> 32) & LOW

    def joined(self, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        return low | (high << 32)

    def quarter_back(self, x: torch.Tensor, width: int) -> torch.Tensor:
        return x - (1 << 62) if width == 64 else (x - (1 << 30)) & LOW


@dataclass(frozen=True)
class _Type:
    """Stands for a type of the IR: its bits, and the elements of PyTorch's."""

    width: int
    dtype: torch.dtype


class _Floats(Floats[torch.Tensor]):
    """Words of 32 bits are int64 in [0, 2**32) here; those of 64 are int64 too, and may be negative."""

    def op(self, name: str, *operands: Any) -> torch.Tensor:
        if name == "arith.shrui":
            x, count = operands
            return (x >> count) & ((1 << (64 - count)) - 1)
        return _FLOATS[name](*operands)

    def convert(self, name: str, x: torch.Tensor, type_: Any) -> torch.Tensor:
        return x.to(type_.dtype)


TYPES = {
    torch.float32: _Type(32, torch.float32),
    torch.float64: _Type(64, torch.float64),
    torch.int32: _Type(32, torch.int64),  # bits, as whole numbers from 0
    torch.int64: _Type(64, torch.int64),
}


def numbers(seed: torch.Tensor, count: int, distribution: str, dtype: torch.dtype) -> torch.Tensor:
    """The first `count` numbers of stream `seed` (int64 of no dimensions), on its device: `uniform`, `normal` or `bits`."""
    type_ = TYPES[dtype]
    each = NUMBERS[type_.width]
    out = torch.empty(-(-count // each) * each, dtype=type_.dtype, device=seed.device)
    step = PIECE.get(seed.device.type, PIECE["cpu"])
    key = [seed & LOW, (seed >> 32) & LOW]
    for first in range(0, len(out) // each, step):
        n = torch.arange(first, min(first + step, len(out) // each), device=seed.device)
        zero = torch.zeros_like(n)
        made = drawn(_Words(), distribution, type_.width, philox(_Words(), [n & LOW, n >> 32, zero, zero], key))
        part = out[first * each : (first + len(n)) * each].view(-1, each)
        for place, bits in enumerate(made):
            part[:, place] = number(_Floats(), distribution, type_, bits)
    return out[:count]
