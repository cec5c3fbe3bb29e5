"""Indices: constant ones, those of slices, and views lie inside of what they are of."""

from collections.abc import Iterator

from ..analysis.affine.bounds import outside
from ..errors import UserError
from ..ir.locations import source_of
from ..mlir import ir
from .certainty import runs

# op -> the number of the operand that it indexes, after which the indices come
INDEXED = {
    "tensor.extract": 0,
    "tensor.insert": 1,
    "memref.load": 0,
    "memref.store": 1,
    "bascule.store": 1,
    "affine.load": 0,
    "affine.store": 1,
}
SLICED = {"tensor.extract_slice": 0, "tensor.insert_slice": 1, "memref.subview": 0}
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def check_view(op: ir.Operation) -> None:
    """Refuses a view of static sizes that has an element beyond its source."""
    map_, source, result = op.attributes["map"].value, op.operands[0].type, op.results[0].type
    if map_.n_symbols or not (source.has_static_shape and result.has_static_shape):
        return
    found = outside(map_, result.shape, source.shape)
    if found is not None:
        point, dim, value = found
        raise UserError(
            f"'{op.name}' has index {value} of dimension {dim}, of {source.shape[dim]} elements, at {list(point)}",
            location=source_of(op.location),
        )


def check_indices(op: ir.Operation) -> None:
    """Refuses a constant index beyond a static size, where the op runs for certain."""
    indexed = INDEXED[op.name]
    type_ = op.operands[indexed].type
    for dim, value in enumerate(_indices(op, list(op.operands)[indexed + 1 :])):
        if value is None or type_.is_dynamic_dim(dim):
            continue
        size = type_.get_dim_size(dim)
        if not 0 <= value < size and runs(op):
            raise UserError(
                f"'{op.name}' has the index {value} in dimension {dim} of {type_}, which has {size} elements there",
                location=source_of(op.location),
            )


def _indices(op: ir.Operation, operands: list[ir.Value]) -> Iterator[int | None]:
    """The index in each dimension; None where it is no constant."""
    if op.name.startswith("affine."):
        yield from _applied(op.attributes["map"].value, operands)
    else:
        yield from map(constant_of, operands)


def constant_of(value: ir.Value) -> int | None:
    """The integer that `value` is, a constant or what an `affine.apply` makes of constants; else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "affine.apply":
        return _literal(value)
    return _applied(owner.attributes["map"].value, list(owner.operands))[0]


def _literal(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value


def _applied(map_: ir.AffineMap, operands: list[ir.Value]) -> list[int | None]:
    """The results of `map_` that take constants alone."""
    numbers = [_literal(operand) for operand in operands]
    exprs = list(map_.results)
    if None not in numbers and operands and not map_.n_symbols:
        at = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(number) for number in numbers])
        exprs = [expr.compose(at) for expr in exprs]
    return [e.value if isinstance(e := expr.maybe_downcast(), ir.AffineConstantExpr) else None for expr in exprs]


def check_slice(op: ir.Operation) -> None:
    """Refuses a slice of constants that has an element beyond its source, where the op runs for certain: MLIR looks at attributes alone."""
    source = op.operands[SLICED[op.name]].type
    parts = [
        _part(op, name, number) for number, name in enumerate(("static_offsets", "static_sizes", "static_strides"))
    ]
    for dim, (offset, size, stride) in enumerate(zip(*parts)):
        if offset is None or size is None or stride is None or size == 0 or source.is_dynamic_dim(dim):
            continue
        ends, length = (offset, offset + (size - 1) * stride), source.get_dim_size(dim)
        if not 0 <= min(ends) <= max(ends) < length and runs(op):
            raise UserError(
                f"'{op.name}' takes {ends[0]} to {ends[1]} of dimension {dim} of {source}, which has {length} elements there",
                location=source_of(op.location),
            )


def _part(op: ir.Operation, name: str, number: int) -> list[int | None]:
    """The offsets, sizes or strides of a slice: those that are attributes, and constants among its operands."""
    segments = list(op.attributes["operandSegmentSizes"])
    start = sum(segments[: len(segments) - 3 + number])
    operands = iter(list(op.operands)[start : start + segments[len(segments) - 3 + number]])
    return [constant_of(next(operands)) if value == _DYNAMIC else value for value in op.attributes[name]]
