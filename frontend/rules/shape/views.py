"""View operators: `bascule.view` with the map from the result's index to the source's.

A view operator that eager answers with a copy (`reshape` of a transposed tensor) is one too: `fold-views` makes it a compute where the
layout eager gives the result is not the source's layout seen through the map.
"""

from collections.abc import Sequence

import torch
from bascule.dialect.analysis.affine.affine_forms import Atoms, from_expr
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import Size, constant, expr, index_map, layout_of, shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import delinearize, dim, dims, element_count, polynomial, reshape_map, same_size
from ...conversion.registry import NoRule, rule
from ...conversion.torch_stage import INSIDE
from ..support.axes import wrap_dim
from ..support.operands import read, tensor_dtype
from ..support.scalars import dtype_of, scalar_type


def view(c: Conversion, x: ir.Value, index: Sequence[Size] | ir.AffineMap, number: int = 0) -> ir.Value:
    """Result `number` as a view of `x` at `index`; `x` itself where that changes nothing."""
    sizes, type_ = c.result_sizes[number], c.results[number]
    map_ = index if isinstance(index, ir.AffineMap) else index_map(len(sizes), index)
    if x.type == type_ and list(map_.results) == dims(len(sizes)) and shape_of(x) == sizes:
        return x
    return builders.view(x, map_, sizes, type_)


@rule(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten._reshape_alias.default",
    "aten.view_copy.default",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
    "aten.reshape_as.default",
)
def reshape(c, x, *_):
    """Same elements in row-major order under other sizes, which the result's type gives."""
    return view(c, x, reshape_map(shape_of(x), c.result_sizes[0]))


@rule(
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.lift_fresh.default",
    "aten.lift.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
)
def same(c, x, *_):
    return view(c, x, dims(len(c.result_sizes[0])))


@rule(
    "aten.expand.default",
    "aten.expand_copy.default",
    "aten.expand_as.default",
    "aten.broadcast_to.default",
)
def expand(c, x, *_):
    source, result = shape_of(x), c.result_sizes[0]
    lead = len(result) - len(source)
    return view(c, x, [expr(0) if constant(size) == 1 else dim(lead + i) for i, size in enumerate(source)])


@rule("aten.permute.default", "aten.permute_copy.default")
def permute(c, x, order):
    index = [None] * len(order)
    for i, source in enumerate(order):
        index[wrap_dim(source, len(order))] = dim(i)
    return view(c, x, index)


@rule("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(c, x, first, second):
    order = list(range(len(c.result_sizes[0])))
    if order:
        order[first], order[second] = order[second], order[first]
    return permute(c, x, order)


@rule("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default")
def reverse_dims(c, x):
    return view(c, x, dims(len(c.result_sizes[0]))[::-1])


@rule("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist")
def movedim(c, x, source, destination):
    rank = len(c.result_sizes[0])
    source = [wrap_dim(s, rank) for s in ([source] if isinstance(source, int) else source)]
    destination = [wrap_dim(d, rank) for d in ([destination] if isinstance(destination, int) else destination)]
    moved = dict(zip(destination, source))
    rest = iter(i for i in range(rank) if i not in source)
    return permute(c, x, [moved[i] if i in moved else next(rest) for i in range(rank)])


def counts_from_end(place: Size) -> bool:
    """Whether a position is negative. One with symbols is when every term is: sizes are positive."""
    if isinstance(place, int):
        return place < 0
    place = place.maybe_downcast()
    if isinstance(place, ir.AffineAddExpr):
        return counts_from_end(place.lhs) and counts_from_end(place.rhs)
    if isinstance(place, ir.AffineMulExpr):
        return counts_from_end(place.lhs) != counts_from_end(place.rhs)
    if isinstance(place, ir.AffineFloorDivExpr | ir.AffineCeilDivExpr):
        return counts_from_end(place.lhs)  # a divisor is positive
    value = constant(place)
    return value is not None and value < 0


def slice_start(size: Size, start: Size | None, end: Size | None, step: int, taken: Size) -> ir.AffineExpr:
    """The first element of `[start:end:step]` of `size` elements, `taken` of which are in the slice."""
    start = expr(0 if start is None else start)
    if not counts_from_end(start):
        return start  # past the end only if the slice is empty: then nothing reads it
    if same_size(size, taken) and step == 1:
        return expr(0)  # a negative start before the beginning
    first = expr(size) + start
    known = constant(first)
    return first if known is None else expr(max(0, known))


@rule("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_tensor(c, x, number=0, start=None, end=None, step=1):
    sizes = shape_of(x)
    number = wrap_dim(number, len(sizes))
    first = slice_start(sizes[number], start, end, step, c.result_sizes[0][number])
    index = dims(len(sizes))
    index[number] = index[number] * step + first
    return view(c, x, index)


@rule("aten.narrow.default", "aten.narrow_copy.default")
def narrow(c, x, number, start, length):
    return slice_tensor(c, x, number, start)


def selected(sizes: Sequence[ir.AffineExpr], number: int, place: Size) -> tuple[int, ir.AffineExpr]:
    """The dimension and the position that `select(x, number, place)` takes of an `x` of `sizes`."""
    number = wrap_dim(number, len(sizes))
    return number, sizes[number] + place if counts_from_end(place) else expr(place)


@rule("aten.select.int", "aten.select_copy.int")
def select_int(c, x, number, place):
    number, position = selected(shape_of(x), number, place)
    index = dims(len(c.result_sizes[0]))
    return view(c, x, [*index[:number], position, *index[number:]])


@rule("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(c, x, offset=0, dim1=0, dim2=1):
    rank = len(c.result_sizes[0]) + 1
    dim1, dim2 = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    rest, along = iter(dims(rank - 2)), dim(rank - 2)
    place = {dim1: along + max(-offset, 0), dim2: along + max(offset, 0)}
    return view(c, x, [place[i] if i in place else next(rest) for i in range(rank)])


@rule("aten.unfold.default", "aten.unfold_copy.default")
def unfold(c, x, number, size, step):
    rank = len(c.result_sizes[0]) - 1
    index, window = dims(rank), dim(rank)
    if rank == 0:
        return view(c, x, [])
    number = wrap_dim(number, rank)
    index[number] = index[number] * step + window
    return view(c, x, index)


def pieces(c: Conversion, x: ir.Value, number: int) -> list[ir.Value]:
    """The results, which lie one after another along dimension `number` of `x`."""
    number, start, parts = wrap_dim(number, len(shape_of(x))), expr(0), []
    for i, sizes in enumerate(c.result_sizes):
        index = dims(len(sizes))
        index[number] = index[number] + start
        parts.append(view(c, x, index, i))
        start = start + sizes[number]
    return parts


@rule(
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.split_copy.Tensor",
    "aten.split_with_sizes_copy.default",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes.default",
    "aten.chunk.default",
    "aten.unsafe_chunk.default",
    "aten.tensor_split.sections",
)
def split(c, x, _, number=0):
    return pieces(c, x, number)


@rule("aten.unbind.int", "aten.unbind_copy.int")
def unbind(c, x, number=0):
    number = wrap_dim(number, len(shape_of(x)))
    index = dims(len(shape_of(x)) - 1)
    return [view(c, x, [*index[:number], expr(i), *index[number:]], i) for i in range(len(c.results))]


@rule("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(c, x, size, stride, storage_offset=None):
    """A view of the tensor whose memory `x` is seen in, where that fills its memory without gaps.

    In the torch stage `storage_offset` counts from the first element of `x`.
    """
    root, position = storage_root(x)
    position = position + (storage_offset or 0)
    for i, step in enumerate(stride):
        position = position + dim(i) * step
    # A copy of an input has no rest of a storage. What the graph makes has all that is read (`storage_places.outside`).
    own = INSIDE in c.op.attributes
    if isinstance(root.owner, ir.Block) and not own and not stays_inside(root, position, size):
        raise NoRule("what it reads may lie outside of the tensor, in the rest of its storage")
    return view(c, root, storage_index(root, position, len(size)))


def stays_inside(root: ir.Value, position: ir.AffineExpr, sizes: Sequence[Size]) -> bool:
    """Whether `position` in the memory of `root` is known to be that of an element, at each index of `sizes`."""
    atoms = Atoms()
    elements, *extents = (from_expr(expr(n), atoms) for n in (element_count(shape_of(root)), *sizes))
    atoms.assume(extents)
    return atoms.inside(from_expr(expr(position), atoms), elements)


def storage_root(x: ir.Value) -> tuple[ir.Value, ir.AffineExpr]:
    """The tensor whose memory `x` is seen in, through views, and where in that memory the first element of `x` lies."""
    index = [expr(0)] * x.type.rank
    while isinstance(x.owner, ir.Operation) and x.owner.name == "bascule.view":
        map_ = x.owner.attributes["map"].value
        index = [e.compose(index_map(0, index)) for e in map_.results]
        x = x.owner.operands[0]
    return x, layout_of(x.type).results[0].compose(index_map(0, index))


def storage_index(root: ir.Value, position: ir.AffineExpr, rank: int) -> list[ir.AffineExpr]:
    """The index in `root` of the element at `position` of its memory."""
    sizes = shape_of(root)
    order = dense_order(layout_of(root.type), sizes)
    if order is None:
        raise NoRule("as_strided of a tensor with gaps or overlaps")
    index = [expr(0)] * len(sizes)
    for place, e in zip(order, delinearize(position, [sizes[i] for i in order], rank)):
        index[place] = e
    return index


def dense_order(layout: ir.AffineMap, sizes: Sequence[ir.AffineExpr]) -> list[int] | None:
    """The dimensions, slowest first, of a layout that is row-major in that order; None for other layouts."""
    strides = strides_of(layout, len(sizes))
    order, step, left = [], expr(1), [i for i in range(len(sizes)) if constant(sizes[i]) != 1]
    while left:
        inner = next((i for i in left if same_size(strides[i], step)), None)
        if inner is None:
            return None
        order.append(inner)
        left.remove(inner)
        step = step * sizes[inner]
    return order[::-1]


def strides_of(layout: ir.AffineMap, rank: int) -> list[ir.AffineExpr]:
    """The strides, in elements, of a layout that is a sum of index times stride."""
    strides = [expr(0)] * rank
    for atoms, factor in polynomial(layout.results[0]).items():
        numbers = [atom.position for atom in atoms if isinstance(atom, ir.AffineDimExpr)]
        if len(numbers) != 1:
            raise NoRule("a layout that is not strided")
        strides[numbers[0]] += element_count([a for a in atoms if not isinstance(a, ir.AffineDimExpr)]) * factor
    return strides


@rule("aten.clone.default", "aten.contiguous.default")
def copy(c, x, *_):
    tensor_dtype(x)  # complex elements go to ATen
    return c.compute(builders.element_at(x))


@rule("aten.view.dtype", "aten.view_copy.dtype")
def view_dtype(c, x, _):
    """The same bits as another type of the same width."""
    old, new = x.type.element_type, c.results[0].element_type
    source, target = dtype_of(old), dtype_of(new)
    if source is None or target is None or source.itemsize != target.itemsize:
        raise NoRule("a bitcast between element types of different widths, or of complex ones")
    if old == new:
        return same(c, x)

    def body(indices):
        value = read(x, indices)
        if scalar_type(source) == scalar_type(target):  # they differ in sign only
            return value.value
        if torch.bool in (source, target):  # a byte in memory, one bit as a scalar
            return value.to(torch.uint8 if source == torch.bool else torch.bool).value
        return value.bitcast(target).value

    return c.compute(body)
