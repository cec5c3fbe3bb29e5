"""Operands of pointwise operators: torch's type promotion, broadcasting, and `elementwise`, which builds the compute."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TypeAlias

import torch
from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.scalar_types import ELEMENTS
from bascule.dialect.ir.types import CAST
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import LeftToAten, NoRule
from .scalars import NARROW, Number, Scalar, create, dtype_of, element_type, opmath, refuse_symbolic


@dataclass(frozen=True)
class Mask:
    """An operand that is read as a boolean, whatever the others are read as."""

    value: ir.Value


Operand: TypeAlias = ir.Value | Number | ir.AffineExpr | Mask
Emit = Callable[..., Scalar]


def tensor_dtype(x: ir.Value) -> torch.dtype:
    """The torch dtype of a tensor; `NoRule` for one that regions do not compute with (complex)."""
    dtype = dtype_of(x.type.element_type)
    if dtype is None:
        raise NoRule(f"elements of type {x.type.element_type}")
    return dtype


def floats_only(function: Callable) -> Callable:
    """The rule of an operator that eager has no kernel for where its first operand holds whole numbers: ATen is called then, and says so."""

    @wraps(function)
    def asked(c: Conversion, x: ir.Value, *arguments: object) -> object:
        if not tensor_dtype(x).is_floating_point:
            raise LeftToAten("ATen refuses whole numbers")
        return function(c, x, *arguments)

    return asked


def numbers_only(function: Callable) -> Callable:
    """The rule of an operator that eager has no kernel for where its result holds booleans."""

    @wraps(function)
    def asked(c: Conversion, *arguments: object) -> object:
        if dtype_of_result(c) == torch.bool:
            raise LeftToAten("ATen refuses booleans")
        return function(c, *arguments)

    return asked


def known_numbers(*names: str) -> Callable[[Callable], Callable]:
    """A rule that computes with the arguments of `names` while it builds: ATen is called with those that sizes or data give."""

    def register(function: Callable) -> Callable:
        places = [place for place, name in enumerate(signature(function).parameters) if name in names]

        @wraps(function)
        def asked(c: Conversion, *arguments: object) -> object:
            for place in places:
                if place <= len(arguments):
                    refuse_symbolic(arguments[place - 1])
            return function(c, *arguments)

        return asked

    return register


def dtype_of_result(c: Conversion, number: int = 0) -> torch.dtype:
    dtype = dtype_of(c.results[number].element_type)
    if dtype is None:
        raise NoRule(f"a result with elements of type {c.results[number].element_type}")
    return dtype


_CATEGORY = {True: 2, False: 1}  # floats over integers over booleans


def _category(dtype: torch.dtype) -> int:
    return 0 if dtype == torch.bool else _CATEGORY[dtype.is_floating_point]


def promoted(c: Conversion, *operands: Operand) -> torch.dtype:
    """The dtype to which torch promotes `operands`.

    Tensors of rank 0 and Python numbers change the outcome only by a higher category (float over integer over bool), in that order.
    """
    found: list[torch.dtype | None] = [None, None, None]  # of tensors with dimensions, of those without, of numbers
    for x in operands:
        if isinstance(x, ir.Value):
            dtype, rank = tensor_dtype(x), 1 if x.type.rank == 0 else 0
        else:
            rank = 2
            dtype = (
                torch.bool
                if isinstance(x, bool)
                else getattr(torch, ELEMENTS[c.asked.default_dtype])
                if isinstance(x, float)
                else torch.int64
            )
        before = found[rank]
        found[rank] = dtype if before is None else torch.promote_types(before, dtype)
    outcome = None
    for dtype in found:
        if dtype is not None and (outcome is None or _category(dtype) > _category(outcome)):
            outcome = dtype if outcome is None or not dtype.is_floating_point else torch.promote_types(outcome, dtype)
    assert outcome is not None, "promotion of nothing"
    return outcome


def read(x: ir.Value, indices: Sequence[ir.Value]) -> Scalar:
    """The element of `x` at `indices`, in its own dtype."""
    return Scalar(builders.read(x, indices), tensor_dtype(x))


def index_constant(number: int) -> ir.Value:
    type_ = ir.IndexType.get()
    return create("arith.constant", type_, value=ir.IntegerAttr.get(type_, number))


def broadcast(x: ir.Value, sizes: Sequence[shapes.Size]) -> Callable[[Sequence[ir.Value]], list[ir.Value]]:
    """Index into a result of `sizes` -> index into `x`: dimensions align at the right, and a size of 1 is repeated. Raises `LeftToAten` for
    sizes that eager refuses: nothing is read beyond `x`."""
    skip = len(sizes) - x.type.rank
    wanted = [shapes.constant(shapes.expr(size)) for size in sizes[skip:]] if skip >= 0 else []
    own = [None if x.type.is_dynamic_dim(i) else x.type.get_dim_size(i) for i in range(x.type.rank)]
    if skip < 0 or any(None not in (size, most) and size not in (1, most) for size, most in zip(own, wanted)):
        raise LeftToAten("eager wants sizes that broadcast")
    repeated = [
        not x.type.is_dynamic_dim(i) and x.type.get_dim_size(i) == 1 and shapes.constant(shapes.expr(size)) != 1
        for i, size in enumerate(sizes[skip:])
    ]

    def indices(at: Sequence[ir.Value]) -> list[ir.Value]:
        return [index_constant(0) if repeat else i for repeat, i in zip(repeated, at[skip:])]

    return indices


def number_scalar(c: Conversion, x: Number | ir.AffineExpr, dtype: torch.dtype) -> Scalar:
    """A Python number, or an integer computed from symbols, as a scalar of `dtype`."""
    if isinstance(x, ir.Value):  # a number that was computed from sizes: `frontend/rules/calls/symbolic_numbers.py`
        return read(x, []).to(dtype)
    if not isinstance(x, ir.AffineExpr):
        return Scalar.constant(x, dtype)
    (value,) = c.apply([x], [])
    i64 = ir.IntegerType.get_signless(64)
    return Scalar(create("arith.index_cast", i64, value), torch.int64).to(dtype)


def reader(
    c: Conversion, x: Operand, sizes: Sequence[shapes.Size], dtype: torch.dtype, *, mark: str | None = None
) -> Callable[[Sequence[ir.Value]], Scalar]:
    """Index into a result of `sizes` -> the operand's value there, in `dtype`. `mark`: what it is converted for."""
    if isinstance(x, Mask):
        x, dtype = x.value, torch.bool
    if not isinstance(x, ir.Value):
        return lambda at: number_scalar(c, x, dtype)
    tensor_dtype(x)  # refused before anything is built
    indices = broadcast(x, sizes)
    return lambda at: read(x, indices(at)).to(dtype, mark=mark)


def promotion(*dtypes: torch.dtype | None) -> str | None:
    """The mark of operands' conversions for a result that is of `dtypes`, or computed as such: where none is narrow, a narrower operand is
    promoted."""
    return None if set(dtypes).intersection(NARROW) else CAST


def elementwise(
    c: Conversion,
    emit: Emit,
    *operands: Operand,
    dtype: torch.dtype | None = None,
    number: int = 0,
    mark: str | None = None,
    wide_numbers: bool = False,
) -> ir.Value:
    """Result `number`: at each index, `emit` of the operands' values there.

    Operands arrive in `dtype` (default: the result's), f16, bf16 and f8 widened to f32. What `emit` returns, of whatever
    dtype, is converted to the result's. `mark`: of the operands' conversions, see `Scalar.to`. With eager's roundings an operand is first
    rounded to `dtype`, as eager promotes it; `wide_numbers`: but for one number or scalar tensor, which eager's kernel reads as it was given.
    """
    result = dtype_of_result(c, number)
    inside = opmath(dtype or result)
    mark = mark or promotion(result, dtype)
    readers = [reader(c, x, c.result_sizes[number], inside, mark=mark) for x in operands]
    if c.asked.eager_rounding and dtype is None and result in NARROW:
        readers = [
            read_ if _is_stored_in(x, result) or (wide_numbers and _is_single(c, x)) else _rounded(read_, result)
            for x, read_ in zip(operands, readers)
        ]
    return c.compute(lambda at: finish(c, emit(*(r(at) for r in readers)), result), number)


def _is_stored_in(x: Operand, dtype: torch.dtype) -> bool:
    """Whether an operand needs no rounding to `dtype`."""
    return isinstance(x, Mask) or (isinstance(x, ir.Value) and tensor_dtype(x) == dtype)


def _is_single(c: Conversion, x: Operand) -> bool:
    """A tensor without dimensions is one number for a kernel only in the memory that the host reads."""
    return not isinstance(x, ir.Value) or (x.type.rank == 0 and c.asked.target == "cpu")


def _rounded(read_: Callable[[Sequence[ir.Value]], Scalar], dtype: torch.dtype) -> Callable:
    def rounded(at: Sequence[ir.Value]) -> Scalar:
        x = read_(at)
        return x.to(dtype, rounding=True).to(x.dtype)

    return rounded


def temporary(
    sizes: Sequence[shapes.Size], dtype: torch.dtype, body: Callable[[Sequence[ir.Value]], Scalar]
) -> ir.Value:
    """A row-major intermediate of `sizes`: at each index, what `body` gives in `dtype`."""
    return builders.compute(shapes.tensor_type(sizes, element_type(dtype)), sizes, lambda at: body(at).value)


def finish(c: Conversion, x: Scalar, dtype: torch.dtype) -> ir.Value:
    """`x` as an element of a result of `dtype`. The rounding is ours to drop, unless every operator is to round as eager does."""
    return x.to(dtype, rounding=c.asked.eager_rounding).value
