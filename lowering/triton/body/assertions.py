"""Indices and numbers from data that are out of range: where one is clamped that should not have to be, the program ends, and the driver names
the user's line, as for eager's own kernels."""

from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.locations import operators_of
from bascule.dialect.mlir import ir

from ..values.tiles import Tile, elementwise, spread
from .emitter import RULES, Body


def assert_inside(e: Body, op: ir.Operation) -> None:
    """After `op`, the last that clamps an index, or an element: that it is what it was before, where it is used. NaN never is."""
    condition, message = _index(e, op) if op.name == "arith.minsi" else _element(e, op)
    axes = e.memory.reach(condition.axes)
    holds = spread(e.b, condition, axes)
    for mask in e.memory.mask(axes):  # what is not at a point has any index
        holds = e.b.same("arith.ori", holds, e.b.same("arith.xori", mask, e.b.constant(mask.type, -1)))
    if holds not in e.asserted:
        e.asserted.add(holds)
        operator = "".join(f"{name}: " for name in operators_of(op.location)[:1])
        e.b.op("tt.assert", [], [holds], {"message": ir.StringAttr.get(f"{operator}{message}")})


def _index(e: Body, op: ir.Operation) -> tuple[Tile, str]:
    """Whether an index is as it was before it was clamped, and narrowed; and what to say of one that is not."""
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
    size = b.numbers.get(e.tile(last).value)
    told = "its dimension" if size is None else f"a dimension of {int(size) + 1} elements"
    return inside, f"an index is out of bounds for {told}"


def _element(e: Body, op: ir.Operation) -> tuple[Tile, str]:
    """Whether a number is as it was before it was clamped, from below or from both sides; and what to say of one that is not."""
    b = e.b
    x, ends = op.operands[0], [op.operands[1]]
    lower = _made_by(x, "arith.maximumf") if op.name == "arith.minimumf" else None
    if lower is not None:
        x, ends = lower.operands[0], [lower.operands[1], *ends]
    inside = elementwise(b, lambda x, y: b.compare("oeq", x, y), [e.tile(x), e.tile(op.results[0])])
    numbers = [b.numbers.get(e.tile(end).value) for end in ends]
    return inside, f"an element is not {'between' if len(ends) == 2 else 'at least'} {' and '.join(map(str, numbers))}"


def _cast(index: ir.Value) -> ir.Operation | None:
    """Finds the cast that made an index of a number from data; one that wraps chooses between two."""
    chosen = _made_by(index, "arith.select")
    return _made_by(index if chosen is None else chosen.operands[2], "arith.index_cast")


def _made_by(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return owner if not isinstance(owner, ir.Block) and owner.name == name else None


RULES[CHECKED] = assert_inside
