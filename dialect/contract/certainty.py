"""Whether an op runs for certain: what never runs may be as it likes."""

from ..mlir import ir


def runs(op: ir.Operation) -> bool:
    """Whether there is a point at which `op` runs: no condition, and no range that is, or may be, empty, is around it."""
    parent = op.parent
    while parent is not None and parent.operation.name != "func.func":
        around = parent.operation
        if not around.name.startswith("bascule."):
            return False
        ranges = around.attributes["ranges"].value.results
        if not all(isinstance(size, ir.AffineConstantExpr) and size.value > 0 for size in ranges):
            return False
        parent = around.parent
    return True
