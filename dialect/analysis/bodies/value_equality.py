"""Whether two values are computed alike."""

from ...ir.types import ROUNDED
from ...mlir import ir


def equal(one: ir.Value, other: ir.Value, pairs: dict[ir.Value, ir.Value]) -> bool:
    """Whether two values are computed alike, where the keys of `pairs` stand for its values; ops with regions are equal to none but themselves.
    Adds what it finds equal to `pairs`."""
    if one in pairs:
        return pairs[one] == other
    if one == other:
        return True
    if isinstance(one.owner, ir.Block) or isinstance(other.owner, ir.Block):
        return False
    a, b = one.owner, other.owner
    if a.name != b.name or len(a.regions) or len(a.results) != 1 or len(b.results) != 1:
        return False
    same = one.type == other.type and _attributes(a) == _attributes(b) and len(a.operands) == len(b.operands)
    if not same or not all(equal(x, y, pairs) for x, y in zip(a.operands, b.operands)):
        return False
    pairs[one] = other
    return True


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Without the mark of whose readers round it: what is computed is the same."""
    return {name: op.attributes[name] for name in op.attributes if name != ROUNDED}
