"""Indices from data that are out of range: where one is clamped that should not have to be, the program ends, and the driver names the user's
line, as for eager's own kernels."""

from typing import TYPE_CHECKING

from bascule.dialect.ir.locations import operators_of
from bascule.dialect.mlir import ir

from .tiles import elementwise, spread

if TYPE_CHECKING:
    from .body import Body


def assert_inside(e: "Body", op: ir.Operation) -> None:
    """After `op`, which clamps an index from above: that the index is what it was before, where it is used."""
    b = e.b
    index, last = op.operands
    lower = _made_by(index, "arith.maxsi")
    if lower is not None:
        index = lower.operands[0]
    inside = elementwise(b, lambda x, y: b.compare("eq", x, y), [e.tile(index), e.tile(op.results[0])])
    cast = _cast(index)
    if cast is not None and cast.operands[0].type == b.i64 and e.ix.type == b.i32:
        narrow = e.tile(cast.results[0])
        wide = elementwise(
            b,
            lambda x, y: b.compare("eq", b.convert("arith.extsi", x, b.i64), y),
            [narrow, e.tile(cast.operands[0])],
        )
        inside = elementwise(b, lambda x, y: b.same("arith.andi", x, y), [inside, wide])
    axes = e.memory.reach(inside.axes)
    condition = spread(b, inside, axes)
    for mask in e.memory.mask(axes):  # what is not at a point has any index
        condition = b.same("arith.ori", condition, b.same("arith.xori", mask, b.constant(mask.type, -1)))
    if condition not in e.asserted:
        e.asserted.add(condition)
        operator = "".join(f"{name}: " for name in operators_of(op.location)[:1])
        size = b.numbers.get(e.tile(last).value)
        told = "its dimension" if size is None else f"a dimension of {int(size) + 1} elements"
        message = ir.StringAttr.get(f"{operator}an index is out of bounds for {told}")
        b.op("tt.assert", [], [condition], {"message": message})


def _cast(index: ir.Value) -> ir.Operation | None:
    """What made an index of a number from data; one that wraps chooses between two."""
    chosen = _made_by(index, "arith.select")
    return _made_by(index if chosen is None else chosen.operands[2], "arith.index_cast")


def _made_by(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return owner if not isinstance(owner, ir.Block) and owner.name == name else None
