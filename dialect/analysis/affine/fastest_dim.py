"""Which way memory runs: the dim of a tensor whose elements are next to each other."""

from ...ir.shapes import layout_of
from ...mlir import ir
from .linear_forms import linear


def fastest_dim(type_: ir.RankedTensorType) -> int | None:
    """The dim with stride 1; of a row-major tensor the last dim that is longer than 1. None if there is none."""
    long = [d for d in range(type_.rank) if type_.is_dynamic_dim(d) or type_.get_dim_size(d) != 1]
    if not long:
        return None
    if type_.encoding is None:
        return long[-1]
    steps = linear(layout_of(type_).results[0]).steps
    return next((d for d in reversed(long) if steps.get(d) == 1), None)
