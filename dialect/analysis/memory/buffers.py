"""Memrefs of the program stage: types, sizes, and which values share memory.

A memref's layout counts from its own first element, so a `bascule.view` of a memref moves the first element and its type
carries no offset: equal layouts are equal types wherever in memory they lie.
"""

from collections.abc import Sequence
from functools import reduce
from operator import mul

from ...interrupts import pass_on
from ...ir import builders
from ...ir.functions import SHAPE, SHAPES, is_extern
from ...ir.shapes import constant, constants, expr, layout_of, row_major, symbol_count
from ...ir.types import byte_width
from ...mlir import affine, ir, memref
from ..affine.mixed_terms import simplified
from ..affine.simplification import Simplifier, compose

ALIASES = ("bascule.view", "memref.reinterpret_cast", "memref.view", "memref.cast")


def memref_type(type_: ir.RankedTensorType) -> ir.MemRefType:
    """The memref that holds a tensor of `type_`: same sizes, elements and layout."""
    layout = None if type_.encoding is None else type_.encoding.map
    if layout is not None and type_.rank == 1 and layout_of(type_).results[0] == ir.AffineExpr.get_dim(0):
        layout = None  # MLIR prints, and counts, no symbols of an identity
    return ir.MemRefType.get(type_.shape, type_.element_type, layout=layout, loc=ir.Location.unknown())


def at(map_: ir.AffineMap, index: Sequence[int]) -> ir.AffineExpr:
    """The result of a layout map at a constant index: an expression of symbols."""
    point = ir.AffineMap.get(0, map_.n_symbols, [expr(i) for i in index])
    return map_.results[0].compose(point).maybe_downcast()


def from_first(layout: ir.AffineMap) -> ir.AffineMap:
    """`layout`, counted from the element at index 0."""
    first = at(layout, [0] * layout.n_dims)
    if first == expr(0):
        return layout
    return ir.AffineMap.get(layout.n_dims, layout.n_symbols, [layout.results[0] - first])


def is_alias(
    source: ir.Type, map_: ir.AffineMap, result: ir.Type, sizes: Sequence[ir.AffineExpr], simplifier: Simplifier
) -> bool:
    """Whether a view of `source` by `map_` has its elements where the type `result` tells."""
    seen = from_first(compose(layout_of(source), map_))
    return simplifier.equal(seen, layout_of(result), sizes)


def static_strides(type_: ir.MemRefType) -> list[int] | None:
    """The strides of a memref whose layout is a sum of multiples of indices, if they are numbers."""
    try:
        steps, _ = type_.get_strides_and_offset()
    except RuntimeError as error:  # another map
        pass_on(error)
        return None
    return None if ir.ShapedType.get_dynamic_stride_or_offset() in steps else steps


def strides(type_: ir.MemRefType) -> list[ir.AffineExpr]:
    """The strides of a memref, in elements, as expressions of symbols."""
    if (known := static_strides(type_)) is not None:
        return [expr(step) for step in known]
    map_, rank = type_.affine_map, type_.rank
    if len(map_.results) != 1:  # no layout: row-major
        return row_major(type_.shape)
    first = at(map_, [0] * rank)
    found = []
    for k in range(rank):
        step = at(map_, [int(i == k) for i in range(rank)])
        found.append(step if first == expr(0) else difference(step, first))
    return found


def difference(a: ir.AffineExpr, b: ir.AffineExpr) -> ir.AffineExpr:
    """`a - b`, simplified; over symbols only."""
    return simplified(a - b, 0, symbol_count([a, b]))


def moved_by(view: ir.Operation) -> ir.AffineExpr:
    """How many elements the first element of a `bascule.view` lies behind that of its source."""
    map_, layout = view.attributes["map"].value, layout_of(view.operands[0].type)
    first = [substitute(e, [expr(0)] * map_.n_dims) for e in map_.results]
    return difference(substitute(layout.results[0], first), at(layout, [0] * layout.n_dims))


def bytes_of(type_: ir.MemRefType, sizes: Sequence[ir.AffineExpr], width: int | None = None) -> ir.AffineExpr:
    """Bytes from the first element to the last, both included. With symbols it may be more, and is never negative.

    `width`: the bytes of an element, if they are to be taken for others.
    """
    width = byte_width(type_.element_type) if width is None else width
    steps = strides(type_)
    counts, known_steps = constants(sizes), constants(steps)
    if counts is not None and known_steps is not None:
        last = sum((count - 1) * step for count, step in zip(counts, known_steps))
        return expr(0 if 0 in counts else width * (1 + last))
    if steps == row_major(sizes):
        return expr(reduce(mul, sizes) * width)
    # The exact (size - 1) * stride may be negative where a size is 0.
    return expr(sum((size * step for size, step in zip(sizes, steps)), expr(1)) * width)


def alloc(type_: ir.MemRefType, sizes: Sequence[ir.AffineExpr], symbols: Sequence[ir.Value]) -> ir.Value:
    """A `memref.alloc` of `type_` at the insertion point."""
    dynamic = [values_of([size], symbols)[0] for i, size in enumerate(sizes) if type_.is_dynamic_dim(i)]
    used = layout_of(type_).n_symbols if type_.affine_map.n_symbols else 0
    return memref.AllocOp(type_, dynamic, list(symbols[:used])).result


def seen_as(type_: ir.MemRefType, value: ir.Value, before: ir.Operation) -> ir.Value:
    """`value`, dense, as a memref of `type_`, dense too."""
    if value.type == type_:
        return value
    with ir.InsertionPoint(before), before.location:
        sizes = list(type_.shape)
        steps = [constant(step) for step in row_major([expr(size) for size in sizes])]
        return memref.reinterpret_cast(type_, value, [], [], [], [0], sizes, steps)


def values_of(exprs: Sequence[ir.AffineExpr], symbols: Sequence[ir.Value]) -> list[ir.Value]:
    """Expressions of symbols as `index` values at the insertion point."""
    values = []
    for e in exprs:
        e = e.maybe_downcast()
        if isinstance(e, ir.AffineSymbolExpr):
            values.append(symbols[e.position])
        else:
            map_ = ir.AffineMap.get(0, len(symbols), [e])
            values.append(affine.apply(map_, list(symbols)))
    return values


class Sizes:
    """Sizes of the memrefs of a function, and `index` values, as expressions of its symbols."""

    def __init__(self, function: ir.Operation, table: ir.SymbolTable):
        self.table = table
        self.symbols = {symbol: i for i, symbol in enumerate(builders.symbols_of(function))}
        self.arguments = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else ()

    def expression(self, value: ir.Value) -> ir.AffineExpr:
        """An `index` value as an expression."""
        if value in self.symbols:
            return ir.AffineExpr.get_symbol(self.symbols[value])
        op = value.owner.operation
        if op.name == "arith.constant":
            return expr(op.attributes["value"].value)
        assert op.name == "affine.apply", f"{op.name} gives no size"
        map_ = op.attributes["map"].value
        operands = [self.expression(operand) for operand in op.operands]
        dims, symbols = operands[: map_.n_dims], operands[map_.n_dims :]
        return substitute(map_.results[0], dims, symbols)

    def of(self, value: ir.Value) -> list[ir.AffineExpr]:
        """The sizes of a memref."""
        type_ = value.type
        if type_.has_static_shape:
            return [expr(size) for size in type_.shape]
        if isinstance(value.owner, ir.Block):
            number = ir.BlockArgument(value).arg_number
            return list(self.arguments[number][SHAPE].value.results)
        op = value.owner.operation
        match op.name:
            case "bascule.view":
                return list(op.attributes["shape"].value.results)
            case "func.call":
                callee = self.table[op.attributes["callee"].value].operation
                assert is_extern(callee)
                return list(callee.attributes[SHAPES][ir.OpResult(value).result_number].value.results)
            case "memref.alloc":
                rest = iter(op.operands)
            case "memref.view":
                rest = iter(list(op.operands)[2:])
            case "memref.reinterpret_cast":
                offsets, sizes = op.attributes["operandSegmentSizes"][1], op.attributes["operandSegmentSizes"][2]
                rest = iter(list(op.operands)[1 + offsets : 1 + offsets + sizes])
            case _:
                raise AssertionError(f"no sizes are known for a result of {op.name}")
        return [
            self.expression(next(rest)) if type_.is_dynamic_dim(i) else expr(type_.get_dim_size(i))
            for i in range(type_.rank)
        ]


def substitute(
    e: ir.AffineExpr, dims: Sequence[ir.AffineExpr], symbols: Sequence[ir.AffineExpr] | None = None
) -> ir.AffineExpr:
    """`e` with expressions for its dimensions, and for its symbols if given."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        return dims[e.position]
    if isinstance(e, ir.AffineSymbolExpr):
        return e if symbols is None else symbols[e.position]
    if isinstance(e, ir.AffineConstantExpr):
        return e
    lhs, rhs = substitute(e.lhs, dims, symbols), substitute(e.rhs, dims, symbols)
    if isinstance(e, ir.AffineAddExpr):
        return lhs + rhs
    if isinstance(e, ir.AffineMulExpr):
        return lhs * rhs
    if isinstance(e, ir.AffineModExpr):
        return ir.AffineExpr.get_mod(lhs, rhs)
    if isinstance(e, ir.AffineFloorDivExpr):
        return ir.AffineExpr.get_floor_div(lhs, rhs)
    return ir.AffineExpr.get_ceil_div(lhs, rhs)


def root_of(value: ir.Value) -> ir.Value:
    """The value whose memory `value` lies in: an argument, an allocation or an ATen result."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in ALIASES:
        value = value.owner.operation.operands[0]
    return value
