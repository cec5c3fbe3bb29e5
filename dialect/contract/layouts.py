"""Layouts: strides of what an operation makes are known, elements lie apart, and 64 bits are enough for their addresses."""

import re
from collections.abc import Iterator
from itertools import combinations
from math import gcd, prod

from ..analysis.affine.bounds import interval
from ..errors import UserError
from ..ir.attributes import LayoutAttr
from ..ir.locations import source_of
from ..ir.loop_ops import symbols_around
from ..ir.shapes import constant, layout_of
from ..ir.signatures import layout_complaint
from ..mlir import ir

MADE = ("bascule.compute", "bascule.scan", "bascule.scatter", "bascule.view", "bufferization.alloc_tensor")
BITS = 60  # of an address in bytes, with room for what is computed of it
FARTHEST = 1 << (BITS - 4)  # elements, of 16 bytes at the most
Index = tuple[int, ...]


def check_layout(op: ir.Operation) -> None:
    """Refuses a result whose layout is no strided one, or in which two elements share an address that do not in a view's source."""
    type_ = op.results[0].type
    complaint = layout_complaint(type_, symbols_around(op)) or far(type_)
    if complaint is None and isinstance(type_, ir.RankedTensorType) and type_.encoding and type_.has_static_shape:
        shared = (pair for pair in _at_one_address(type_) if not _is_seen_twice(op, *pair))
        first, second = next(shared, ((), ()))
        if first:
            complaint = f"has the elements {list(first)} and {list(second)} at one address"
    if complaint is not None:
        raise UserError(f"the result of '{op.name}', {type_}, {complaint}", location=source_of(op.location))


def check_reach(function: ir.Operation) -> None:
    """Refuses an argument or a result of a function whose elements lie farther apart than addresses go."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for what, types in (("argument", type_.inputs), ("result", type_.results)):
        for number, each in enumerate(types):
            complaint = far(each) if isinstance(each, ir.RankedTensorType | ir.MemRefType) else None
            if complaint is not None:
                text = f"{what} {number} of @{function.attributes['sym_name'].value}, {each}, {complaint}"
                raise UserError(text, location=source_of(function.location))


def far(type_: ir.RankedTensorType | ir.MemRefType) -> str | None:
    """Complains of addresses that 64 bits do not hold. Of a dynamic size nothing is known: each number in the type is looked at."""
    sizes = [type_.get_dim_size(dim) for dim in range(type_.rank) if not type_.is_dynamic_dim(dim)]
    most: float = max(prod(filter(None, sizes)), *map(int, re.findall(r"\d+", _layout_text(type_))), 0)
    if most < FARTHEST and type_.has_static_shape and 0 not in sizes and layout_complaint(type_, None) is None:
        (most,) = (interval(each, type_.shape)[1] for each in layout_of(type_).results)
    return None if most < FARTHEST or most == float("inf") else f"has addresses of more than {BITS} bits"


def _layout_text(type_: ir.RankedTensorType | ir.MemRefType) -> str:
    layout = type_.encoding if isinstance(type_, ir.RankedTensorType) else type_.layout
    return "" if layout is None else re.sub(r"\b[ds]\d+", "", str(layout))


def _at_one_address(type_: ir.RankedTensorType) -> Iterator[tuple[Index, Index]]:
    """Pairs of indices at one address: those that differ in a dim without a stride, or meet along two dims."""
    assert isinstance(type_.encoding, LayoutAttr)  # `layout_complaint` refuses others
    layout, none = ir.AffineMapAttr(type_.encoding.map).value, (0,) * type_.rank
    if layout.n_symbols or 0 in type_.shape:
        return
    sizes = {dim: size for dim, size in enumerate(type_.shape) if size > 1}
    steps = {dim: _at(layout, _moved(none, dim, 1)) - _at(layout, none) for dim in sizes}
    for dim, step in steps.items():
        if step == 0:
            yield none, _moved(none, dim, 1)
    for i, k in combinations(sizes, 2):
        if steps[i] and steps[k]:
            common = gcd(steps[i], steps[k])
            along, across = steps[k] // common, steps[i] // common
            if along < sizes[i] and across < sizes[k]:
                yield _moved(none, i, along), _moved(none, k, across)


def _moved(index: Index, dim: int, by: int) -> Index:
    return (*index[:dim], index[dim] + by, *index[dim + 1 :])


def _at(map_: ir.AffineMap, index: Index, result: int = 0) -> int:
    """A result of a map without symbols, at an index."""
    at = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(i) for i in index])
    value = constant(ir.AffineMap.get(map_.n_dims, 0, [map_.results[result]]).results[0].compose(at))
    assert value is not None  # strided, of constants alone
    return value


def _is_seen_twice(op: ir.Operation, first: Index, second: Index) -> bool:
    """Whether both indices of a view's result are, or may be, at one address of its source, which may itself be expanded."""
    if op.name != "bascule.view":
        return False
    source, map_ = op.operands[0].type, op.attributes["map"].value
    if map_.n_symbols or not source.has_static_shape or layout_complaint(source, None) is not None:
        return True
    layout = layout_of(source)
    if layout.n_symbols:
        return True
    seen = [tuple(_at(map_, index, number) for number in range(len(map_.results))) for index in (first, second)]
    return seen[0] == seen[1] or _at(layout, seen[0]) == _at(layout, seen[1])
