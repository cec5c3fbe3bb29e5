"""`bascule.random` in int64 arithmetic; `ir/philox.py` says which numbers they are."""

from types import SimpleNamespace
from typing import Any

import torch

from ..ir.philox import NUMBERS, Floats, Words, drawn, number, philox
from .frame import rule
from .scalars import SCALARS
from .values import dtype_of

LOW = 0xFFFFFFFF


class _Words(Words[torch.Tensor]):
    """int64 tensors in [0, 2**32)."""

    def add(self, x, number):
        return (x + number) & LOW

    def xor(self, x, y):
        return x ^ y

    def product(self, x, number):
        low = number * (x & 0xFFFF)  # products that int64 holds
        high = number * (x >> 16) + (low >> 16)
        return ((high & 0xFFFF) << 16) | (low & 0xFFFF), high >> 16

    def joined(self, low, high):
        return low | (high << 32)

    def quarter_back(self, x, width):
        return x - (1 << 62) if width == 64 else (x - (1 << 30)) & LOW


class _Floats(Floats[torch.Tensor]):
    """The interpreter's own rules."""

    def op(self, name: str, *operands: Any) -> Any:
        x, *rest = operands
        seen: Any = SimpleNamespace(results=[SimpleNamespace(type=_TYPES[x.dtype])], attributes={})
        return SCALARS[name](seen, x, *(torch.as_tensor(y, dtype=x.dtype) for y in rest))

    def convert(self, name, x, type_):
        return SCALARS[name](SimpleNamespace(results=[SimpleNamespace(type=type_)]), x)


_TYPES = {
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float32: "f32",
    torch.float64: "f64",
}


def words(seed: torch.Tensor, counter: torch.Tensor) -> list[torch.Tensor]:
    """The four words (int64 tensors in [0, 2**32)) of counter `counter` under key `seed`, both int64."""
    seed, counter = torch.broadcast_tensors(seed, counter)
    zero = torch.zeros_like(counter)
    return philox(_Words(), [counter & LOW, (counter >> 32) & LOW, zero, zero], [seed & LOW, (seed >> 32) & LOW])


@rule("bascule.random")
def random(frame, op, operands, scope):
    seed, position = operands
    type_, distribution = op.results[0].type, op.attributes["distribution"].value
    width, count = type_.width, NUMBERS[type_.width]
    each = drawn(_Words(), distribution, width, words(seed, position // count))
    integer = torch.int32 if width == 32 else torch.int64
    place = (position % count).expand(each[0][0].shape)
    bits = [torch.stack(column, -1).gather(-1, place.unsqueeze(-1)).squeeze(-1).to(integer) for column in zip(*each)]
    return [number(_Floats(), distribution, type_, bits).to(dtype_of(type_))]
