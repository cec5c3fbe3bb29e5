"""Reads at indices that come from data: index, gather, index_select, take, embedding, bucketize.

Eager raises IndexError for an index out of range. A compiled kernel can't raise, and must not read memory that is not the tensor's: the
index is clamped into the dimension instead, so the result of a program that eager refuses is unspecified and nothing else happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ..conversion import Conversion, NoRule, rule
from ..index_maps import delinearize, dim, element_count
from .index_values import as_index, clamped, extent, when, wrapped
from .operands import broadcast, number_scalar, tensor_dtype
from .scalars import scalar_type
from .views import wrap_dim

Value = ir.Value


def position(c: Conversion, index: Value, size: ir.AffineExpr, *, wrap: bool) -> Value:
    """A scalar from an index tensor as an index into a dimension of `size`; `wrap`: a negative one counts from the end."""
    place = as_index(index)
    return clamped(wrapped(place, extent(c, size)) if wrap else place, extent(c, size - 1))


def readable(x: Value, dims: Sequence[int]) -> None:
    """Refuses complex elements, and to index an empty dimension: every index of it is out of range."""
    tensor_dtype(x)
    sizes = shape_of(x)
    if any(known(sizes[i]) == 0 for i in dims):
        raise NoRule("an index into an empty dimension")


@dataclass(frozen=True)
class AdvancedIndex:
    """`x[indices]` as NumPy defines it: which dimension of the value `x[indices]` each index tensor and each kept dimension takes.

    The index tensors broadcast against each other. Their dimensions stand where the first of them stood if they are adjacent, else first.
    """

    indices: dict[int, Value]  # indexed dimension of x -> its index tensor
    kept: dict[int, int]  # other dimension of x -> dimension of the value
    sizes: list[ir.AffineExpr]  # of the value
    shared: list[ir.AffineExpr]  # what the index tensors broadcast to
    first: int  # the first of their dimensions in the value

    @staticmethod
    def of(x: Value, indices: Sequence[Value | None]) -> "AdvancedIndex":
        sizes = shape_of(x)
        given = {i: index for i, index in enumerate(indices) if index is not None}
        for index in given.values():
            if index.type.element_type in (ir.IntegerType.get_signless(1), ir.IntegerType.get_unsigned(8)):
                raise NoRule("a mask as an index: the size of the result depends on data")
        shared = broadcast_sizes([shape_of(index) for index in given.values()])
        numbers = sorted(given)
        adjacent = numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        first = numbers[0] if numbers and adjacent else 0
        rest = [i for i in range(len(sizes)) if i not in given]
        kept = {i: k if k < first else k + len(shared) for k, i in enumerate(rest)}
        out = [sizes[i] for i in rest]
        return AdvancedIndex(given, kept, out[:first] + shared + out[first:], shared, first)

    def source(self, c: Conversion, x: Value, at: Sequence[Value]) -> list[Value]:
        """The index in `x` of the value's element at `at`."""
        shared, result = at[self.first : self.first + len(self.shared)], []
        for i, size in enumerate(shape_of(x)):
            if i in self.kept:
                result.append(at[self.kept[i]])
            else:
                index = self.indices[i]
                place = builders.read(index, broadcast(index, self.shared)(shared))
                result.append(position(c, place, size, wrap=True))
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
    readable(x, list(how.indices))
    return c.compute(lambda at: builders.read(x, how.source(c, x, at)))


@rule("aten._unsafe_masked_index.default")
def masked_index(c, x, mask, indices, fill):
    how = AdvancedIndex.of(x, indices)
    dtype = tensor_dtype(x)

    def body(at):
        return when(
            builders.read(mask, broadcast(mask, how.sizes)(at)),
            scalar_type(dtype),
            lambda: builders.read(x, how.source(c, x, at)),
            lambda: number_scalar(c, fill, dtype).value,
        )

    return c.compute(body)


def with_place(indices: Sequence[Value], number: int, place: Value) -> list[Value]:
    return [*indices[:number], place, *indices[number + 1 :]]


@rule("aten.gather.default")
def gather(c, x, number, index, sparse_grad=False):
    sizes = shape_of(x)
    number = wrap_dim(number, len(sizes))
    if not sizes:
        return c.compute(lambda at: builders.read(x, []))
    readable(x, [number])

    def body(at):
        return builders.read(
            x, with_place(at, number, position(c, builders.read(index, at), sizes[number], wrap=False))
        )

    return c.compute(body)


@rule("aten.index_select.default")
def index_select(c, x, number, index):
    sizes = shape_of(x)
    number = wrap_dim(number, len(sizes))
    if not sizes:
        return c.compute(lambda at: builders.read(x, []))
    readable(x, [number])

    def body(at):
        place = builders.read(index, [at[number]] if shape_of(index) else [])
        return builders.read(x, with_place(at, number, position(c, place, sizes[number], wrap=False)))

    return c.compute(body)


@rule("aten.take.default")
def take(c, x, index):
    """Elements of `x`, seen as one row, at `index`."""
    sizes = shape_of(x)
    readable(x, range(len(sizes)))

    def body(at):
        place = position(c, builders.read(index, at), element_count(sizes), wrap=True)
        return builders.read(x, c.apply(delinearize(dim(0), sizes, 1), [place]))

    return c.compute(body)


@rule("aten.embedding.default")
def embedding(c, weight, indices, *_):
    """Rows of `weight`. The padding index and the scaling of gradients concern the backward only."""
    readable(weight, [0])
    rows = shape_of(weight)[0]

    def body(at):
        row = position(c, builders.read(indices, at[:-1]), rows, wrap=False)
        return builders.read(weight, [row, at[-1]])

    return c.compute(body)
