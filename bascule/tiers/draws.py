"""Operators that draw random numbers, by PyTorch's operators and from the stream that a kernel would draw from. They follow the rules in
`frontend/rules/calls/random.py` one by one.

A compiled graph draws one seed an operator, at its top, from PyTorch's generator; the same is done here. So a call draws the same numbers
whichever tier runs it, and takes as many from the generator.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .philox_numbers import numbers

DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}  # of the significand
INT64 = torch.iinfo(torch.int64)
Formula = Callable[..., Any]

DRAWS: dict[
    str, Formula
] = {}  # operator -> what computes it: of a `Stream`, then the arguments in the order of the schema
KEEPS: dict[
    str, Callable[..., bool]
] = {}  # operator -> whether it draws from its stream, given its arguments; else ATen does it


def seeds(sizes: Sequence[int], device: torch.device) -> Tensor:
    """As a compiled graph draws them."""
    return torch.ops.aten.randint.low(INT64.min, INT64.max, sizes, dtype=torch.int64, device=device)


@dataclass(frozen=True)
class Stream:
    """A seed, and the dtype of what is made of its numbers. `known`: both ends of a range are no symbols."""

    seed: Tensor
    dtype: torch.dtype
    known: bool = True

    @property
    def inside(self) -> torch.dtype:
        """The dtype that floats are drawn and computed in."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def draw(self, distribution: str, sizes: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        return numbers(self.seed, math.prod(sizes), distribution, dtype or self.inside).view(*sizes)

    def digits(self, u: Tensor) -> Tensor:
        """`u` in [0, 1) cut to the digits of the result, so that rounding does not make it 1."""
        if DIGITS.get(self.dtype, 24) >= 24:
            return u
        steps = 2.0 ** DIGITS[self.dtype]
        return (u * steps).floor() * (1.0 / steps)


def drawn(*operators: str, unless: Callable[..., bool] = lambda *_: False) -> Callable[[Formula], Formula]:
    """Registers what `operators` do; `unless` their arguments are left to ATen."""

    def register(formula: Formula) -> Formula:
        for operator in operators:
            DRAWS[operator], KEEPS[operator] = formula, lambda *args: not unless(*args)
        return formula

    return register


def draw(operator: str, seed: Tensor, dtype: torch.dtype, known: bool, *args: Any) -> Any:
    """Result or results of `operator`."""
    return DRAWS[operator](Stream(seed, dtype, known), *args)


def _like(x: Tensor, value: Tensor, dtype: torch.dtype) -> Tensor:
    """`value` in the strides of `x`, as operators that are given a tensor return it."""
    return torch.empty_like(x, dtype=dtype).copy_(value)


def _generator(*args: Any) -> bool:
    return any(isinstance(x, torch.Generator) for x in args)


@drawn("aten.rand.default")
def rand(s: Stream, size, *_):
    return s.digits(s.draw("uniform", size)).to(s.dtype)


@drawn("aten.rand_like.default")
def rand_like(s: Stream, x, *_):
    return _like(x, s.digits(s.draw("uniform", x.shape)), s.dtype)


@drawn("aten.randn.default")
def randn(s: Stream, size, *_):
    return s.draw("normal", size).to(s.dtype)


@drawn("aten.randn_like.default")
def randn_like(s: Stream, x, *_):
    return _like(x, s.draw("normal", x.shape), s.dtype)


@drawn("aten.uniform.default", unless=lambda x, low, high, g: low > high or _generator(g))
def uniform(s: Stream, x, low, high, *_):
    return _like(x, s.digits(s.draw("uniform", x.shape)) * (high - low) + low, s.dtype)


@drawn("aten.normal_functional.default", unless=_generator)
def normal_like(s: Stream, x, mean, std, *_):
    return _like(x, s.draw("normal", x.shape) * std + mean, s.dtype)


@drawn("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor", unless=_generator)
def normal(s: Stream, mean, std, *_):
    given = [x.to(s.inside) if isinstance(x, Tensor) else x for x in (mean, std)]
    if isinstance(std, Tensor):
        torch._assert_async((std >= 0).all(), "normal expects all elements of std >= 0.0")
    sizes = torch.broadcast_shapes(*(x.shape for x in given if isinstance(x, Tensor)))
    return (s.draw("normal", sizes) * given[1] + given[0]).to(s.dtype)


@drawn("aten.normal.float_float", unless=_generator)
def normal_of_size(s: Stream, mean, std, size, *_):
    return (s.draw("normal", size) * std + mean).to(s.dtype)


@drawn("aten.log_normal.default", unless=_generator)
def log_normal(s: Stream, x, mean, std, *_):
    return _like(x, (s.draw("normal", x.shape) * std + mean).exp(), s.dtype)


@drawn("aten.exponential.default", unless=_generator)
def exponential(s: Stream, x, rate, *_):
    smallest = torch.finfo(s.inside).eps / 2
    return _like(x, (-(-s.draw("uniform", x.shape)).log1p()).clamp(min=smallest) / rate, s.dtype)


@drawn("aten.geometric.default", unless=_generator)
def geometric(s: Stream, x, p, *_):
    scale = 1.0 / math.log1p(-p) if p < 1 else 0.0
    return _like(x, ((-s.draw("uniform", x.shape)).log1p() * scale).ceil().clamp(min=1.0), s.dtype)


@drawn("aten.cauchy.default", unless=_generator)
def cauchy(s: Stream, x, median, sigma, *_):
    return _like(x, ((s.draw("uniform", x.shape) - 0.5) * math.pi).tan() * sigma + median, s.dtype)


@drawn("aten.bernoulli.default", "aten.bernoulli.Tensor", unless=_generator)
def bernoulli(s: Stream, x, *rest):
    p = next((x for x in rest if isinstance(x, Tensor)), x)
    torch._assert_async(((p >= 0) & (p <= 1)).all(), "Expected p_in >= 0 && p_in <= 1 to be true")
    return _like(x, s.draw("uniform", x.shape) < p.to(s.inside), s.dtype)


@drawn("aten.bernoulli.p", unless=lambda x, p, g: not 0 <= p <= 1 or _generator(g))
def bernoulli_of(s: Stream, x, p, *_):
    return _like(x, s.draw("uniform", x.shape) < p, s.dtype)


def dropped(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """A dropout that keeps nothing. A kernel draws nothing for it, and ATen does."""
    return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)


@drawn("aten.native_dropout.default", unless=lambda x, p, train: train is False or p >= 1)
def native_dropout(s: Stream, x, p, *_):
    kept = _like(x, s.draw("uniform", x.shape, torch.float32) < 1.0 - p, torch.bool)
    return (x.to(s.inside) * kept * (1.0 / (1.0 - p))).to(s.dtype), kept


@drawn(
    "aten.rrelu_with_noise_functional.default", unless=lambda x, n, lo, up, train, g: train is False or _generator(g)
)
def rrelu(s: Stream, x, noise, lower, upper, *_):
    wide, u = x.to(s.inside), s.digits(s.draw("uniform", x.shape))
    slopes = torch.where(wide <= 0, u * (upper - lower) + lower, 1.0).to(s.dtype)
    return (wide * slopes.to(s.inside)).to(s.dtype), slopes


# -- integers -----------------------------------------------------------------------------------------------------------


def _integers(s: Stream, sizes: Sequence[int], low: int, high: Any) -> Tensor:
    """Whole numbers from `low` to `high` - 1."""
    if s.known and isinstance(high, int) and high - low <= 2**31:
        return ((s.draw("bits", sizes, torch.int32) * (high - low)) >> 32) + low
    bits = s.draw("bits", sizes, torch.int64)
    last = high.to(torch.int64) if isinstance(high, Tensor) else torch.tensor(_signed(high), device=bits.device)
    whole = last - _signed(low)
    return _remainder(bits, torch.where(whole == 0, 1, whole)) + _signed(low)


def _signed(x: int) -> int:
    """`x` modulo 2**64, as int64 has it."""
    return (x + 2**63) % 2**64 - 2**63


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """x mod y of int64 tensors that are read without a sign."""
    half = torch.where(y < 0, 1, y)
    twice = (((x >> 1) & INT64.max) % half) * 2 + (x & 1)  # below 2 * y
    small = torch.where(_not_below(twice, half), twice - half, twice)
    return torch.where(y < 0, torch.where(_not_below(x, y), x - y, x), small)


def _not_below(x: Tensor, y: Tensor) -> Tensor:
    return (x ^ INT64.min) >= (y ^ INT64.min)


@drawn("aten.randint.default")
def randint(s: Stream, high, size, *_):
    return _integers(s, size, 0, high).to(s.dtype)


@drawn("aten.randint.low")
def randint_from(s: Stream, low, high, size, *_):
    return _integers(s, size, low, high).to(s.dtype)


@drawn("aten.randint_like.default", "aten.randint_like.Tensor")
def randint_like(s: Stream, x, high, *_):
    return _like(x, _integers(s, x.shape, 0, high), s.dtype)


@drawn("aten.randint_like.low_dtype")
def randint_like_from(s: Stream, x, low, high, *_):
    return _like(x, _integers(s, x.shape, low, high), s.dtype)


def _limit(dtype: torch.dtype) -> int:
    """One more than the largest number that `random` draws."""
    return 2 ** DIGITS[dtype] if dtype.is_floating_point else 2 if dtype == torch.bool else torch.iinfo(dtype).max + 1


@drawn("aten.random.default", unless=_generator)
def random(s: Stream, x, *_):
    return _like(x, _integers(s, x.shape, 0, _limit(s.dtype)), s.dtype)


@drawn("aten.random.to", unless=_generator)
def random_below(s: Stream, x, high, *_):
    return _like(x, _integers(s, x.shape, 0, high), s.dtype)


@drawn("aten.random.from", unless=_generator)
def random_between(s: Stream, x, low, high, *_):
    return _like(x, _integers(s, x.shape, low, _limit(s.dtype) if high is None else high), s.dtype)


# -- operators that are given their seed ----------------------------------------------------------------------------------


def seeded(size: Sequence[int], seed: Tensor, mode: str, dtype: torch.dtype) -> Tensor:
    """`prims.inductor_random`, drawn in f32."""
    return (
        numbers(seed, math.prod(size), {"rand": "uniform", "randn": "normal"}[mode], torch.float32)
        .view(*size)
        .to(dtype)
    )


def seeded_integers(low: int, high: int, size: Sequence[int], seed: Tensor, dtype: torch.dtype, known: bool) -> Tensor:
    """`prims.inductor_randint`."""
    return _integers(Stream(seed, dtype, known), size, low, high).to(dtype)
