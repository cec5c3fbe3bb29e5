"""Which way memory runs: the dim of a tensor whose elements are next to each other."""

from ...ir.shapes import layout_of
from ...mlir import ir


def fastest_dim(type_: ir.RankedTensorType) -> int | None:
    """The dim with stride 1; of a row-major tensor the last dim that is longer than 1. None if there is none."""
    long = [d for d in range(type_.rank) if type_.is_dynamic_dim(d) or type_.get_dim_size(d) != 1]
    if not long:
        return None
    if type_.encoding is None:
        return long[-1]
    steps = _unit_dims(layout_of(type_).results[0])
    return next((d for d in reversed(long) if d in steps), None)


def _unit_dims(expression: ir.AffineExpr) -> set[int]:
    """The dims that are terms of a sum on their own."""
    dims: set[int] = set()
    todo = [expression]
    while todo:
        e = todo.pop()
        if isinstance(e, ir.AffineDimExpr):
            dims.add(e.position)
        elif isinstance(e, ir.AffineAddExpr):
            todo += [e.lhs, e.rhs]
    return dims
