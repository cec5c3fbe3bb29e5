"""Integer arithmetic of MLIR on int64 tensors: every width is computed in 64 bits and wrapped.

A function here takes its operands as 64-bit patterns: sign-extended by `widen`, or zero-extended by `widen_unsigned`.
"""

import torch

MIN64 = -(2**63)
WIDTHS = {torch.bool: 1, torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}


def widen(x: torch.Tensor) -> torch.Tensor:
    """Sign-extended: an i1 that is true is -1."""
    return -x.to(torch.int64) if x.dtype == torch.bool else x.to(torch.int64)


def widen_unsigned(x: torch.Tensor) -> torch.Tensor:
    """Zero-extended."""
    width = WIDTHS[x.dtype]
    return x.to(torch.int64) if width in (1, 64) else x.to(torch.int64) & (2**width - 1)


def wrap(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The low bits of a 64-bit pattern."""
    return (x & 1) != 0 if dtype == torch.bool else x.to(dtype)


def less_unsigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a ^ MIN64) < (b ^ MIN64)


def shift_right_unsigned(a: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Zeros come in from the left; 64 bits and more give 0."""
    kept = torch.where(bits == 0, -1, ~(torch.full_like(a, MIN64) >> torch.clamp(bits - 1, 0, 63)))
    return torch.where((bits >= 0) & (bits < 64), (a >> torch.clamp(bits, 0, 63)) & kept, 0)


def divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Rounded toward zero. Where `b` is 0 the result is arbitrary: callers have checked."""
    return torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc")


def divide_floor(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor")


def divide_ceil(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    quotient = divide(a, b)
    exact = quotient * b == a
    return quotient + (~exact & ((a < 0) == (b < 0))).to(torch.int64)


def remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """With the sign of `a`."""
    return a - b * divide(a, b)


def divide_unsigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    one = torch.ones((), dtype=torch.int64)
    half = divide(shift_right_unsigned(a, one), b) << 1  # at most one too small
    rounded = half + (~less_unsigned(a - half * b, b)).to(torch.int64)
    return torch.where(b < 0, (~less_unsigned(a, b)).to(torch.int64), rounded)


def remainder_unsigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a - b * divide_unsigned(a, b)


def divide_ceil_unsigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    quotient = divide_unsigned(a, b)
    return quotient + (quotient * b != a).to(torch.int64)


def multiply_high_unsigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The high 64 bits of the 128-bit product, from four 32-bit products."""
    low, half = 0xFFFFFFFF, torch.full((), 32)
    a0, a1, b0, b1 = a & low, shift_right_unsigned(a, half), b & low, shift_right_unsigned(b, half)
    middle = a1 * b0 + shift_right_unsigned(a0 * b0, half)
    carry = a0 * b1 + (middle & low)
    return a1 * b1 + shift_right_unsigned(middle, half) + shift_right_unsigned(carry, half)


def multiply_high(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return multiply_high_unsigned(a, b) - torch.where(a < 0, b, 0) - torch.where(b < 0, a, 0)


def to_float_unsigned(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A 64-bit pattern as an unsigned number, rounded once: halved with the lost bit kept sticky, then doubled."""
    halved = shift_right_unsigned(a, torch.ones((), dtype=torch.int64)) | (a & 1)
    return torch.where(a < 0, halved.to(dtype) * 2, a.to(dtype))


def from_float_unsigned(x: torch.Tensor) -> torch.Tensor:
    """Rounded toward zero, as a 64-bit pattern."""
    large = x >= 2.0**63
    return torch.where(large, (torch.where(large, x, 0) - 2.0**63).to(torch.int64) ^ MIN64, x.to(torch.int64))


def count_ones(a: torch.Tensor, width: int) -> torch.Tensor:
    return sum(((a >> bit) & 1 for bit in range(width)), torch.zeros_like(a))


def count_leading_zeros(a: torch.Tensor, width: int) -> torch.Tensor:
    for step in (1, 2, 4, 8, 16, 32):  # every bit right of the highest one becomes one
        a = a | shift_right_unsigned(a, torch.full((), step))
    return width - count_ones(a, width)


def count_trailing_zeros(a: torch.Tensor, width: int) -> torch.Tensor:
    return count_ones(~a & (a - 1), width)


def power(base: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Wrapping; a negative exponent gives 1 / base**-exponent rounded toward zero (0 for base 0)."""
    odd = (exponent & 1) != 0
    inverse = torch.where(base == 1, 1, torch.where(base == -1, torch.where(odd, -1, 1), 0))
    return torch.where(exponent < 0, inverse, torch.pow(base, torch.clamp(exponent, min=0)))
