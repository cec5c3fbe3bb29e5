"""The precision that the interpreter computes in: that of the IR's types, double for all, or the types' own with roundings either way.

The third is stochastic arithmetic: a number that its type does not hold becomes the one below or the one above. Runs that differ in
nothing but these choices tell, of each element of a result, what rounding does to it. The choice is a hash of the number, so that equal
numbers stay equal within a run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ODD = 0x5851F42D4C957F2D  # spreads the bits of a number
WIDE_BYTES = (
    8  # in double each byte of memory has room for 8: any element of f8 and wider fits where its narrow one lies
)


@dataclass(frozen=True)
class Precision:
    """`double`: every float is f64, every complex number c128. `seed`: what is not exact is rounded up or down, as it says."""

    double: bool = False
    seed: int | None = None


OWN, DOUBLE = Precision(), Precision(double=True)
_CURRENT: ContextVar[Precision] = ContextVar("precision", default=OWN)


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """The interpreter computes in `precision` inside."""
    token = _CURRENT.set(precision)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_double() -> bool:
    return _CURRENT.get().double


def is_stochastic() -> bool:
    return _CURRENT.get().seed is not None


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype of values of `dtype` while the interpreter computes."""
    return widest(dtype) if is_double() else dtype


def widest(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def widened(value: Any) -> Any:
    """A copy of a tensor in double, of anything else the value: what a run in double takes."""
    return changed(value, lambda x: x.to(widest(x.dtype))) if isinstance(value, torch.Tensor) else value


def nudged(x: torch.Tensor) -> torch.Tensor:
    """A copy of floats, each moved to the number below or above, as an operator's own roundings may move what it makes of them."""
    if not x.is_floating_point():
        return x
    return changed(x, lambda own: _stepped(own, torch.ones(()).bool(), _coin(own.double())))


def changed(x: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`change` of all elements, with the strides that they have, overlapping ones too."""
    if x.numel() == 0:
        return change(x.detach())
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
    made = change(x.detach().as_strided((span,), (1,), x.storage_offset()).clone())
    return made.as_strided(x.shape, x.stride(), 0)


def rounded(x: torch.Tensor, dtype: torch.dtype, operands: Sequence[torch.Tensor] = ()) -> torch.Tensor:
    """`x` in `dtype`: the nearest number, or as the seed says. Of f64 nobody knows whether it is exact: what f32 holds is taken to be,
    and so is what is one of the `operands`."""
    if not (is_stochastic() and dtype.is_floating_point and x.is_floating_point()):
        return x.to(dtype)
    if x.dtype != torch.float64 and (x.dtype == dtype or x.dtype.itemsize < dtype.itemsize >= 4):
        return x.to(dtype)  # which holds every number of the narrower one
    x = x.double()
    nearest = x.to(dtype)
    wide, size = nearest.double(), x.abs()
    exact = wide == x
    if dtype == torch.float64:
        exact = x.float().double() == x
        for operand in operands:
            exact = exact | (size == operand.double().abs())
    if exact.all():
        return nearest
    return _stepped(nearest, ~exact & _coin(x), wide.abs() > size)


def roundings(partial: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Of each of `partial` results (f64) the error that rounding adds."""
    each = rounded(partial, dtype).double() - partial
    return torch.nan_to_num(each, nan=0.0, posinf=0.0, neginf=0.0)


def _coin(x: torch.Tensor) -> torch.Tensor:
    """True or false, evenly, by the bits of f64 numbers and the seed."""
    mixed = x.view(torch.int64) ^ (_CURRENT.get().seed or 0)
    mixed *= _ODD
    mixed ^= mixed >> 29
    mixed *= _ODD
    mixed <<= 2  # the bit asked for is the sign
    return mixed < 0


def _stepped(x: torch.Tensor, moves: torch.Tensor, inward: torch.Tensor) -> torch.Tensor:
    """`x`, and where it `moves` the next number of larger magnitude, or `inward` of smaller; zero and what is not finite stay."""
    bits = x.view(_BITS[x.dtype.itemsize])
    number = x.float() if x.dtype.itemsize < 4 else x
    step = (moves & (number / number == 1)).to(bits.dtype)  # neither zero nor special
    step *= inward.to(bits.dtype).mul_(-2).add_(1)
    return (bits + step).view(x.dtype)
