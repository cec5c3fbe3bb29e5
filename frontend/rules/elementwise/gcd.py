"""Greatest common divisor and least common multiple: Stein's binary algorithm, element by element, without a division."""

import torch

from ..support.scalars import Scalar, is_signed, select
from ..support.while_loops import repeat
from .pointwise import of_numbers, register_binary

_UNSIGNED = {torch.int8: torch.uint8, torch.int16: torch.uint16, torch.int32: torch.uint32, torch.int64: torch.uint64}


def binary_gcd(a: Scalar, b: Scalar) -> Scalar:
    """The greatest common divisor of unsigned numbers; 0 of two zeros.

    `low` is the largest power of two that divides both, and `b` stays an odd multiple of it: half of what is no such multiple, and half of
    the difference of two that are, are multiples of `low` again.
    """
    either = a | b
    low = either & -either
    swapped = (b & low).eq(0)
    a, b = select(swapped, b, a), select(swapped, a, b)

    def step(a: Scalar, b: Scalar) -> list[Scalar]:
        odd = (a & low).ne(0)
        smaller = a.minimum(b)
        half = select(odd, a.maximum(b) - smaller, a).shift_right(1)
        return [half, select(odd, smaller, b)]

    return repeat([a, b], lambda a, b: a.ne(0), step)[1]


def _magnitude(x: Scalar) -> Scalar:
    """|x|, unsigned."""
    return x.abs().to(_UNSIGNED[x.dtype]) if is_signed(x.dtype) else x


def _eager_gcd(a: Scalar, b: Scalar) -> Scalar:
    """Euclid's algorithm with the sign that remainders have: what eager gives where the smallest number, which has no magnitude, is one
    of the operands. Elsewhere no step is taken."""
    smallest = torch.iinfo(a.dtype).min
    special = a.eq(smallest) | b.eq(smallest)
    first = select(special, a.abs(), 0)

    def step(a: Scalar, b: Scalar) -> list[Scalar]:
        return [b.call("arith.remsi", a), a]

    return repeat([first, b.abs()], lambda a, b: a.ne(0), step)[1]


def gcd(a: Scalar, b: Scalar) -> Scalar:
    if not is_signed(a.dtype):
        return binary_gcd(a, b)
    smallest = torch.iinfo(a.dtype).min
    special = a.eq(smallest) | b.eq(smallest)
    found = binary_gcd(select(special, 0, _magnitude(a)), _magnitude(b)).to(a.dtype)
    return select(special, _eager_gcd(a, b), found)


def lcm(a: Scalar, b: Scalar) -> Scalar:
    """|a / gcd * b|, in 32 bits at least, as C has it."""
    dtype = a.dtype
    first, second = _magnitude(a), _magnitude(b)
    divisor = binary_gcd(first, second)
    quotient = first.call("arith.divui", select(divisor.eq(0), 1, divisor))
    if dtype.itemsize < 4:
        return (quotient.to(torch.int32) * second.to(torch.int32)).to(dtype)
    return (quotient * second).to(dtype).abs()


register_binary({"gcd.default": of_numbers(gcd), "lcm.default": of_numbers(lcm)})
