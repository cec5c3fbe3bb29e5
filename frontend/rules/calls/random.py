"""Random numbers: each operator draws from a stream of its own, at the linear index of the element.

A stream is a seed, one element of a tensor that the graph draws once, at its top, from torch's default generator. So
`torch.manual_seed` makes a run repeatable, two runs differ, and any number can be computed anywhere, alone. The numbers are those
of Philox (`dialect/ir/philox.py`), not those that eager would draw; where these are asked for, the operators go to ATen.
"""

import math
from collections.abc import Callable, Sequence

import torch
from bascule.dialect.ir import builders, shapes
from bascule.dialect.mlir import ir

from ...conversion import extern_calls
from ...conversion.context import Conversion
from ...conversion.registry import LeftToAten, NoRule, rule
from ...conversion.torch_stage import operator_name
from ..reduce.reductions import same
from ..shape.creation import constant
from ..support.operands import (
    Operand,
    dtype_of_result,
    elementwise,
    finish,
    index_constant,
    known_numbers,
    reader,
    tensor_dtype,
)
from ..support.requirements import refused_beyond, require
from ..support.scalars import Number, Scalar, element_type, opmath, scalar_type, select

Point = Sequence[ir.Value]
DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}  # of the significand
INT64 = torch.iinfo(torch.int64)

BEGIN = "bascule.begin_draws.default"

_OPERATORS: set[str] = set()


def draws(*operators: str):
    """Registers a rule of an operator that takes one stream."""
    _OPERATORS.update(operators)
    return rule(*operators)


class Streams:
    """The seeds of a function: how many its operators need is counted when the first one asks."""

    def __init__(self, c: Conversion):
        self.used = 0
        block = c.op.block
        self.count = sum(
            op.operation.name.startswith("torch.") and operator_name(op.operation) in _OPERATORS
            for op in block.operations
        )
        type_ = shapes.tensor_type([self.count], element_type(torch.int64))
        with ir.InsertionPoint.at_block_begin(ir.InsertionPoint.current.block):
            arguments = [INT64.min, INT64.max, [self.count], 4, None, None, None]
            (self.seeds,) = extern_calls.call(
                c.externs,
                "aten.randint.low",
                arguments,
                [type_],
                [[shapes.expr(self.count)]],
                reason="seeds of random numbers",
            )

    def take(self) -> int:
        self.used += 1
        return self.used - 1


def linear_index(sizes: Sequence[shapes.Size]) -> ir.AffineExpr:
    """The number of an element in row-major order."""
    return sum((ir.AffineExpr.get_dim(i) * stride for i, stride in enumerate(shapes.row_major(sizes))), shapes.expr(0))


class Stream:
    """One operator's source of numbers."""

    place: tuple[int, ...]  # of its seed in `seeds`

    def __init__(self, c: Conversion, sizes: Sequence[shapes.Size]):
        if c.asked.eager_random:
            raise LeftToAten("eager's random numbers are asked for")
        if any(
            op.operation.name == "torch.operator" and operator_name(op.operation) == BEGIN
            for op in c.op.block.operations
        ):
            raise LeftToAten("a gradient draws its numbers again, from the seed that the generators have here")
        streams = c.shared.setdefault("random", None) or Streams(c)
        c.shared["random"] = streams
        self.c, self.linear, self.seeds, self.place = c, linear_index(sizes), streams.seeds, (streams.take(),)

    @staticmethod
    def seeded(c: Conversion, sizes: Sequence[shapes.Size], seed: ir.Value) -> "Stream":
        """The stream of a seed that the graph has, a tensor of no dimensions."""
        stream = Stream.__new__(Stream)
        stream.c, stream.linear, stream.seeds, stream.place = c, linear_index(sizes), seed, ()
        return stream

    def draw(self, distribution: str, dtype: torch.dtype, at: Point) -> Scalar:
        """The number at index `at` of the result: `uniform` in [0, 1), `normal`, or `bits`."""
        seed = builders.read(self.seeds, [index_constant(number) for number in self.place])
        (place,) = self.c.apply([self.linear], at)
        return Scalar(builders.random(distribution, seed, place, scalar_type(dtype)), dtype)


Emit = Callable[..., Scalar]


def drawn(
    c: Conversion, distribution: str, emit: Emit, *operands: Operand, generator=None, number: int = 0
) -> ir.Value:
    """Result `number`: at each index `emit(number drawn, *operands)`, both in the opmath dtype of the result, f32 or f64."""
    if generator is not None:
        raise NoRule("a generator of the user's own")
    result = dtype_of_result(c, number)
    inside = opmath(result) if result.is_floating_point else torch.float32
    sizes = c.result_sizes[number]
    readers = [reader(c, x, sizes, inside) for x in operands]
    stream = Stream(c, sizes)
    return c.compute(
        lambda at: finish(c, emit(stream.draw(distribution, inside, at), *(r(at) for r in readers)), result), number
    )


def in_digits(u: Scalar, dtype: torch.dtype) -> Scalar:
    """`u` in [0, 1) cut to the digits of `dtype`, so that rounding does not make it 1."""
    if DIGITS[dtype] >= 24:
        return u
    steps = 2.0 ** DIGITS[dtype]
    return (u * steps).floor() * (1.0 / steps)


@draws("aten.rand.default", "aten.rand_like.default")
def rand(c, *_):
    dtype = dtype_of_result(c)
    return drawn(c, "uniform", lambda u: in_digits(u, dtype))


@draws("aten.randn.default", "aten.randn_like.default")
def randn(c, *_):
    return drawn(c, "normal", lambda z: z)


@draws("aten.uniform.default")
def uniform(c, x, low=0.0, high=1.0, generator=None):
    dtype = dtype_of_result(c)
    require(not low > high, "a range that begins before it ends")
    return drawn(c, "uniform", lambda u: in_digits(u, dtype) * (high - low) + low, generator=generator)


@draws("aten.normal_functional.default")
def normal_like(c, x, mean=0.0, std=1.0, generator=None):
    return drawn(c, "normal", lambda z: z * std + mean, generator=generator)


@draws("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal(c, mean, std=1.0, generator=None):
    checked = (lambda std: refused_beyond(c, std, 0)) if isinstance(std, ir.Value) else same
    return drawn(c, "normal", lambda z, mean, std: z * checked(std) + mean, mean, std, generator=generator)


@draws("aten.normal.float_float")
def normal_of_size(c, mean, std, size, generator=None, *_):
    return drawn(c, "normal", lambda z: z * std + mean, generator=generator)


@draws("aten.log_normal.default")
def log_normal(c, x, mean=1.0, std=2.0, generator=None):
    return drawn(c, "normal", lambda z: (z * std + mean).exp(), generator=generator)


@draws("aten.exponential.default")
def exponential(c, x, rate=1.0, generator=None):
    """-log(1 - u) / rate, which is never 0."""

    def emit(u: Scalar) -> Scalar:
        smallest = torch.finfo(u.dtype).eps / 2
        return (-(-u).log1p()).maximum(smallest) / rate

    return drawn(c, "uniform", emit, generator=generator)


@draws("aten.geometric.default")
def geometric(c, x, p, generator=None):
    """The number of trials up to the first success, 1 at least."""
    scale = 1.0 / math.log1p(-p) if p < 1 else 0.0
    return drawn(c, "uniform", lambda u: ((-u).log1p() * scale).call("math.ceil").maximum(1.0), generator=generator)


@draws("aten.cauchy.default")
def cauchy(c, x, median=0.0, sigma=1.0, generator=None):
    return drawn(c, "uniform", lambda u: ((u - 0.5) * math.pi).call("math.tan") * sigma + median, generator=generator)


@draws("aten.bernoulli.default")
def bernoulli(c, p, generator=None):
    return drawn(c, "uniform", lambda u, p: u < refused_beyond(c, p, 0, 1), p, generator=generator)


@draws("aten.bernoulli.p", "aten.bernoulli.Tensor")
def bernoulli_like(c, x, p=0.5, generator=None):
    if isinstance(p, ir.Value):
        return bernoulli(c, p, generator)
    require(0 <= p <= 1, "a probability between 0 and 1")
    return drawn(c, "uniform", lambda u, p: u < p, p, generator=generator)


@draws("aten.native_dropout.default")
@known_numbers("p")
def native_dropout(c, x, p, train=True):
    """The kept elements over 1 - p, and the mask of them, which the backward reads."""
    if train is False:
        kept = c.compute(lambda at: Scalar.constant(True, torch.bool).value, 1)
        return [c.compute(builders.element_at(x)), kept]
    dtype = tensor_dtype(x)
    if p >= 1:
        return [constant(c, 0), c.compute(lambda at: Scalar.constant(False, torch.bool).value, 1)]
    kept = drawn(c, "uniform", lambda u: u < 1.0 - p, number=1)

    def body(at):
        keep = Scalar(builders.read(kept, at), torch.bool)
        value = Scalar(builders.read(x, at), dtype).to(opmath(dtype))
        return finish(c, value * keep.to(value.dtype) * (1.0 / (1.0 - p)), dtype)

    return [c.compute(body), kept]


@draws("aten.rrelu_with_noise_functional.default")
@known_numbers("lower", "upper")
def rrelu(c, x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    """Where x is not positive, x times a slope from `lower` to `upper`; and the slopes, 1 elsewhere, which the backward reads."""
    dtype = tensor_dtype(x)
    if training is False:
        mean = (lower + upper) / 2
        return [elementwise(c, lambda x: select(x > 0.0, x, x * mean), x), c.compute(builders.element_at(noise), 1)]

    def slope(u: Scalar, x: Scalar) -> Scalar:
        return select(x <= 0.0, in_digits(u, dtype) * (upper - lower) + lower, 1.0)

    slopes = drawn(c, "uniform", slope, x, generator=generator, number=1)
    return [elementwise(c, lambda x, slope: x * slope, x, slopes), slopes]


# -- integers -----------------------------------------------------------------------------------------------------------


def integers(
    c: Conversion,
    low: Number | ir.AffineExpr,
    high: Number | ir.AffineExpr | ir.Value,
    generator=None,
    stream: Stream | None = None,
) -> ir.Value:
    """Whole numbers from `low` to `high` - 1; some are likelier than others by a part in 2**32 at most."""
    if generator is not None:
        raise NoRule("a generator of the user's own")
    result, sizes = dtype_of_result(c), c.result_sizes[0]
    ends = [reader(c, x, sizes, torch.int64) for x in (low, high)]
    count = high - low if isinstance(low, int) and isinstance(high, int) else None
    stream = stream or Stream(c, sizes)

    def body(at):
        first, end = (r(at) for r in ends)
        if count is not None and count <= 2**31:  # the upper half of a product is below the count
            bits = Scalar(stream.draw("bits", torch.int32, at).value, torch.uint32).to(torch.int64)
            number = (bits * count).shift_right(32)
        else:
            bits = Scalar(stream.draw("bits", torch.int64, at).value, torch.uint64)
            whole = Scalar((end - first).value, torch.uint64)
            number = Scalar(bits.remainder(select(whole.eq(0), 1, whole)).value, torch.int64)
        return finish(c, number + first, result)

    return c.compute(body)


@draws("aten.randint.default")
def randint(c, high, *_):
    return integers(c, 0, high)


@draws("aten.randint.low")
def randint_from(c, low, high, *_):
    return integers(c, low, high)


@draws("aten.randint_like.default", "aten.randint_like.Tensor")
def randint_like(c, x, high, *_):
    return integers(c, 0, high)


@draws("aten.randint_like.low_dtype")
def randint_like_from(c, x, low, high, *_):
    return integers(c, low, high)


def _limit(dtype: torch.dtype) -> int:
    """One more than the largest number that `random` draws: all whole numbers below it are exact."""
    return 2 ** DIGITS[dtype] if dtype.is_floating_point else 2 if dtype == torch.bool else torch.iinfo(dtype).max + 1


@draws("aten.random.default")
def random(c, x, generator=None):
    return integers(c, 0, _limit(dtype_of_result(c)), generator)


@draws("aten.random.to")
def random_below(c, x, high, generator=None):
    return integers(c, 0, high, generator)


@draws("aten.random.from")
def random_between(c, x, low, high, generator=None):
    return integers(c, low, _limit(dtype_of_result(c)) if high is None else high, generator)
