"""Sizes and layouts as affine expressions of the enclosing function's symbols.

Symbol `sK` of every map in a function is that function's K-th leading `index` argument. A static size is a constant expression.
A size lives in one place: a compute's, scan's or view's own map, an argument's `bascule.shape`, a callee's `bascule.shapes`.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..errors import UserError
from ..mlir import ir
from .attributes import LayoutAttr
from .functions import SHAPE, SHAPES
from .locations import source_of
from .regions import end_of

Size: TypeAlias = int | ir.AffineExpr


def expr(size: Size) -> ir.AffineExpr:
    """`size` as an affine expression of its true class.

    MLIR's bindings give a sum the class `AffineAddExpr` even where it folds (`0 + d0`): before `isinstance`, `lhs` or `rhs`, downcast.
    """
    return ir.AffineExpr.get_constant(size) if isinstance(size, int) else size.maybe_downcast()


def constant(size: ir.AffineExpr) -> int | None:
    """The value of a constant expression, else None."""
    size = size.maybe_downcast()
    return size.value if isinstance(size, ir.AffineConstantExpr) else None


def constants(sizes: Iterable[ir.AffineExpr]) -> list[int] | None:
    """The values of constant expressions; None where one of them is not constant."""
    found = []
    for size in sizes:
        value = constant(size)
        if value is None:
            return None
        found.append(value)
    return found


def symbol_count(exprs: Sequence[ir.AffineExpr]) -> int:
    """One more than the largest symbol number in `exprs`."""
    most, todo = 0, list(exprs)
    while todo:
        e = todo.pop().maybe_downcast()
        if isinstance(e, ir.AffineSymbolExpr):
            most = max(most, e.position + 1)
        elif isinstance(e, ir.AffineBinaryExpr):
            todo += [e.lhs, e.rhs]
    return most


def size_map(sizes: Sequence[Size]) -> ir.AffineMap:
    """`affine_map<()[s0, ...] -> (sizes)>`: what `ranges`, `shape` and `bascule.shape` hold."""
    exprs = [expr(size) for size in sizes]
    return ir.AffineMap.get(0, symbol_count(exprs), exprs)


def index_map(rank: int, results: Sequence[Size]) -> ir.AffineMap:
    """`affine_map<(d0, ...)[s0, ...] -> (results)>` over an index of `rank` dimensions."""
    exprs = [expr(result) for result in results]
    return ir.AffineMap.get(rank, symbol_count(exprs), exprs)


def row_major(sizes: Sequence[Size]) -> list[ir.AffineExpr]:
    """The strides, in elements, of a contiguous tensor of `sizes`."""
    strides, step = [], expr(1)
    for size in reversed(sizes):
        strides.append(step)
        step = step * expr(size)
    return strides[::-1]


def strided(strides: Sequence[Size], offset: Size = 0) -> ir.AffineMap:
    """The layout map of `strides` and `offset`, in elements."""
    total = expr(offset)
    for i, stride in enumerate(strides):
        total = total + ir.AffineExpr.get_dim(i) * expr(stride)
    return index_map(len(strides), [total])


def tensor_type(
    sizes: Sequence[Size], element: ir.Type, strides: Sequence[Size] | None = None, offset: Size = 0
) -> ir.RankedTensorType:
    """The type of a tensor of `sizes`, row-major unless `strides` (elements) says otherwise.

    Static and row-major carries no layout; everything else carries one.
    """
    exprs = [expr(size) for size in sizes]
    dims = [constant(size) for size in exprs]
    contiguous = row_major(exprs)
    chosen = contiguous if strides is None else [expr(stride) for stride in strides]
    # The stride of a dimension of size 1 says nothing; keep the row-major one so that equal layouts are equal types.
    chosen = [c if dim == 1 else s for s, c, dim in zip(chosen, contiguous, dims)]
    plain = None not in dims and chosen == contiguous and expr(offset) == expr(0)
    encoding = None if plain else LayoutAttr.get(ir.AffineMapAttr.get(strided(chosen, offset)))
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic if d is None else d for d in dims], element, encoding)


def layout_of(type_: ir.RankedTensorType | ir.MemRefType) -> ir.AffineMap:
    """Index -> element offset of a tensor or memref type; symbols are the function's. A type without a layout is row-major: its sizes after
    the first are static (`signatures.py` refuses others)."""
    if isinstance(type_, ir.RankedTensorType):
        if type_.encoding is not None:
            return ir.AffineMapAttr(type_.encoding.map).value
    elif isinstance(type_.layout, ir.StridedLayoutAttr):
        return strided(list(type_.layout.strides), type_.layout.offset)
    elif len(type_.affine_map.results) == 1:
        return type_.affine_map
    assert not any(map(type_.is_dynamic_dim, range(1, type_.rank))), f"{type_} is dynamic and has no layout"
    return _row_major_map(type_.shape)


def _row_major_map(shape: Sequence[int]) -> ir.AffineMap:
    """`strided(row_major(shape))`, in numbers; the first size is not looked at."""
    steps, step = list[int](), 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    total: ir.AffineExpr = ir.AffineExpr.get_constant(0)
    for dim, step in enumerate(reversed(steps)):
        total = total + ir.AffineExpr.get_dim(dim) * step
    return ir.AffineMap.get(len(shape), 0, [total])


def shape_of(value: ir.Value) -> list[ir.AffineExpr]:
    """The sizes of a tensor value, as expressions of the enclosing function's symbols."""
    type_ = value.type
    if type_.has_static_shape:
        return [expr(size) for size in type_.shape]
    owner = value.owner
    if isinstance(owner, ir.Block):
        function = owner.owner
        if function.operation.name != "func.func":  # a scatter's destination
            return shape_of(function.operation.operands[0])
        number = ir.BlockArgument(value).arg_number
        return list(function.operation.attributes["arg_attrs"][number][SHAPE].value.results)
    name = owner.name
    if name in ("bascule.compute", "bascule.scan"):
        return list(owner.attributes["ranges"].value.results)
    if name == "bascule.view":
        return list(owner.attributes["shape"].value.results)
    if name == "bascule.scatter":
        return shape_of(owner.operands[0])
    if name == "func.call":
        holder = owner if SHAPES in owner.attributes else callee_of(owner)
        return list(holder.attributes[SHAPES][ir.OpResult(value).result_number].value.results)
    if name == "bufferization.alloc_tensor":
        function = owner.parent
        return list(function.attributes[SHAPES][returned_number(function, value)].value.results)
    raise UserError(f"no sizes are known of a result of '{name}', {type_}", location=source_of(owner.location))


def callee_of(call: ir.Operation) -> ir.Operation:
    """The function that a `func.call` calls: found among all of the module, so not for every call of a graph."""
    module = call
    while module.name != "builtin.module":
        module = module.parent.operation
    return ir.SymbolTable(module)[call.attributes["callee"].value].operation


def returned_number(function: ir.Operation, value: ir.Value) -> int:
    """Which result of `function` returns `value`."""
    return next(i for i, operand in enumerate(end_of(function.regions[0].blocks[0]).operands) if operand == value)
