"""Reads at indices that come from data: index, gather, index_select, take, embedding, bucketize.

Eager raises IndexError for an index out of range. A compiled kernel must not read memory that is not the tensor's: it clamps the index into
the dimension. Assertions refuse the program: `frontend/runtime_checks/index_checks.py` adds them to graphs on a CPU, kernels on a GPU make them
where `position` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.ir.types import STORED
from bascule.dialect.mlir import arith, ir

from ...conversion.context import Conversion
from ...conversion.index_maps import delinearize, dim, element_count
from ...conversion.registry import LeftToAten, NoRule, rule
from ..shape.views import wrap_dim
from ..support.index_values import (
    as_index,
    as_integer,
    choose,
    clamped,
    compare,
    extent,
    refused_outside,
    when,
    wrapped,
)
from ..support.operands import (
    broadcast,
    dtype_of_result,
    index_constant,
    number_scalar,
    promoted,
    read,
    reader,
    tensor_dtype,
)
from ..support.requirements import require, require_index, require_rows_index
from ..support.scalars import Scalar, opmath, scalar_type


def position(c: Conversion, index: ir.Value, size: ir.AffineExpr, *, wrap: bool, checked: bool = True) -> ir.Value:
    """A scalar from an index tensor as an index into a dimension of `size`; `wrap`: a negative one counts from the end; `checked`: eager refuses
    what is out of range."""
    place = as_index(index)
    inside = clamped(wrapped(place, extent(c, size)) if wrap else place, extent(c, size - 1))
    return refused_outside(c, inside) if checked else inside


def is_empty(sizes: Sequence[ir.AffineExpr]) -> bool:
    return any(known(size) == 0 for size in sizes)


def readable(x: ir.Value, dims: Sequence[int]) -> None:
    """Refuses complex elements, and to index an empty dimension: every index of it is out of range."""
    tensor_dtype(x)
    if is_empty([shape_of(x)[i] for i in dims]):
        raise NoRule("an index into an empty dimension")


def indexed(c: Conversion, x: ir.Value, dims: Sequence[int], body: Callable[[list[ir.Value]], ir.Value]) -> ir.Value:
    """The result, whose elements `body` reads from `x` at indices into `dims` that come from data."""
    if is_empty(c.result_sizes[0]):
        raise LeftToAten("nothing is read, and eager looks at the indices all the same")
    readable(x, dims)
    return c.compute(body)


@dataclass(frozen=True)
class AdvancedIndex:
    """`x[indices]` as NumPy defines it: which dimension of the value `x[indices]` each index tensor and each kept dimension takes.

    The index tensors broadcast against each other. Their dimensions stand where the first of them stood if they are adjacent, else first.
    """

    indices: dict[int, ir.Value]  # indexed dimension of x -> its index tensor
    kept: dict[int, int]  # other dimension of x -> dimension of the value
    sizes: list[ir.AffineExpr]  # of the value
    shared: list[ir.AffineExpr]  # what the index tensors broadcast to
    first: int  # the first of their dimensions in the value

    @staticmethod
    def of(x: ir.Value, indices: Sequence[ir.Value | None]) -> "AdvancedIndex":
        sizes = shape_of(x)
        given = {i: index for i, index in enumerate(indices) if index is not None}
        for index in given.values():
            if index.type.element_type in (ir.IntegerType.get_signless(1), ir.IntegerType.get_unsigned(8)):
                raise NoRule("a mask as an index: the size of the result depends on data")
            require_index(index)
        shared = broadcast_sizes([shape_of(index) for index in given.values()])
        numbers = sorted(given)
        adjacent = numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        first = numbers[0] if numbers and adjacent else 0
        rest = [i for i in range(len(sizes)) if i not in given]
        kept = {i: k if k < first else k + len(shared) for k, i in enumerate(rest)}
        out = [sizes[i] for i in rest]
        return AdvancedIndex(given, kept, out[:first] + shared + out[first:], shared, first)

    def source(self, c: Conversion, x: ir.Value, at: Sequence[ir.Value], checked: bool = True) -> list[ir.Value]:
        """The index in `x` of the value's element at `at`; `checked`: see `position`."""
        shared, result = at[self.first : self.first + len(self.shared)], []
        for i, size in enumerate(shape_of(x)):
            if i in self.kept:
                result.append(at[self.kept[i]])
            else:
                index = self.indices[i]
                place = builders.read(index, broadcast(index, self.shared)(shared))
                result.append(position(c, place, size, wrap=True, checked=checked))
        return result


def broadcast_sizes(shapes: Sequence[Sequence[ir.AffineExpr]]) -> list[ir.AffineExpr]:
    """The sizes that tensors of `shapes` broadcast to; a size that is not the constant 1 decides."""
    result = [expr(1)] * max((len(sizes) for sizes in shapes), default=0)
    for sizes in shapes:
        for i, size in enumerate(sizes, len(result) - len(sizes)):
            if known(result[i]) == 1:
                result[i] = size
    return result


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(c, x, indices):
    how = AdvancedIndex.of(x, indices)
    checked = c.operator == "aten.index.Tensor"
    return indexed(c, x, list(how.indices), lambda at: builders.read(x, how.source(c, x, at, checked)))


@rule("aten._unsafe_masked_index.default")
def masked_index(c, x, mask, indices, fill):
    how = AdvancedIndex.of(x, indices)
    require(len(c.result_sizes[0]) == len(how.sizes), "a mask of no more dims than what the indices select has")
    dtype = tensor_dtype(x)
    if is_empty([shape_of(x)[i] for i in how.indices]):  # no index is in range, so the mask selects none
        return c.compute(lambda at: number_scalar(c, fill, dtype).value)

    def body(at):
        return when(
            builders.read(mask, broadcast(mask, how.sizes)(at)),
            scalar_type(dtype),
            lambda: builders.read(x, how.source(c, x, at, checked=False)),
            lambda: number_scalar(c, fill, dtype).value,
        )

    return c.compute(body)


def with_place(indices: Sequence[ir.Value], number: int, place: ir.Value) -> list[ir.Value]:
    return [*indices[:number], place, *indices[number + 1 :]]


@rule("aten.gather.default")
def gather(c, x, number, index, sparse_grad=False):
    sizes = shape_of(x)
    if not sizes:
        return indexed(c, x, [], lambda at: builders.read(x, []))
    number = wrap_dim(number, len(sizes))

    def body(at):
        place = position(c, builders.read(index, at), sizes[number], wrap=False)
        return builders.read(x, with_place(at, number, place))

    return indexed(c, x, [number], body)


@rule("aten.index_select.default")
def index_select(c, x, number, index):
    require_rows_index(index)
    sizes = shape_of(x)
    if not sizes:
        return indexed(c, x, [], lambda at: builders.read(x, []))
    number = wrap_dim(number, len(sizes))

    def body(at):
        place = builders.read(index, [at[number]] if shape_of(index) else [])
        return builders.read(x, with_place(at, number, position(c, place, sizes[number], wrap=False)))

    return indexed(c, x, [number], body)


@rule("aten.take.default")
def take(c, x, index):
    """Elements of `x`, seen as one row, at `index`."""
    sizes = shape_of(x)

    def body(at):
        place = position(c, builders.read(index, at), element_count(sizes), wrap=True)
        return builders.read(x, c.apply(delinearize(dim(0), sizes, 1), [place]))

    return indexed(c, x, range(len(sizes)), body)


@rule("aten.embedding.default")
def embedding(c, weight, indices, *_):
    """Rows of `weight`. The padding index and the scaling of gradients concern the backward only."""
    rows = shape_of(weight)[0]

    def body(at):
        row = position(c, builders.read(indices, at[:-1]), rows, wrap=False)
        return builders.read(weight, [row, at[-1]])

    return indexed(c, weight, [0], body)


# -- positions in sorted rows -------------------------------------------------------------------------------------------


def insertion_point(c: Conversion, boundaries: ir.Value, row: Sequence[ir.Value], x: Scalar, right: bool) -> ir.Value:
    """How many of the sorted `boundaries[row]` are below `x` (`right`: or equal), as an index, by bisection. NaN is above all.

    Of what is not sorted, NaN among them, the answer is the path's: eager's, that looks at the middle of what is left.
    """
    (count,) = [known(size) for size in shape_of(boundaries)[-1:]]
    low, end = index_constant(0), index_constant(count)
    # Invariant: the answer lies in [low, end]. At least one is left before each step but the last, which may find none, at the end too.
    for left in reversed(range(count.bit_length())):
        middle = c.apply([ir.AffineExpr.get_floor_div(dim(0) + dim(1), expr(2))], [low, end])[0]
        place = middle if left else clamped(middle, index_constant(count - 1))
        bound = read(boundaries, [*row, place]).to(x.dtype, mark=STORED)
        advance = (~((bound > x) if right else (bound >= x))).value
        if not left:
            advance = arith.AndIOp(advance, compare("lt", low, end)).result
        low = choose(advance, c.apply([dim(0) + 1], [middle])[0], low)
        end = choose(advance, end, middle)
    return low


def sorted_search(c: Conversion, boundaries: ir.Value, x, right: bool, same_row: bool) -> ir.Value:
    sizes = shape_of(boundaries)
    require(len(sizes) == 1 or same_row, "boundaries of one dimension")
    if known(sizes[-1]) is None:
        raise NoRule("a search among a number of boundaries that is not known")
    wanted = promoted(c, boundaries, x)
    if wanted == torch.bool:
        raise LeftToAten("ATen refuses booleans")
    dtype = dtype_of_result(c)
    element = reader(c, x, c.result_sizes[0], opmath(wanted), mark=STORED)

    def body(at):
        row = at[: len(sizes) - 1] if same_row else []
        place = insertion_point(c, boundaries, row, element(at), right)
        return Scalar(as_integer(place), torch.int64).to(dtype).value

    return c.compute(body)


@rule("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(c, x, boundaries, out_int32=False, right=False):
    return sorted_search(c, boundaries, x, right, same_row=False)


@rule("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(c, boundaries, x, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        raise NoRule("searchsorted with a sorter")
    same_row = len(shape_of(boundaries)) > 1
    return sorted_search(c, boundaries, x, right or side == "right", same_row)
