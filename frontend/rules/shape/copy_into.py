"""`as_strided_scatter`: a write to elements that are named by their place in memory."""

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import expr, shape_of

from ...conversion.index_maps import dim
from ...conversion.registry import NoRule, rule
from ...conversion.torch_stage import INSIDE
from .views import stays_inside, storage_index


@rule("aten.as_strided_scatter.default")
def as_strided_scatter(c, x, source, size, stride, storage_offset=None):
    """Where two elements of `source` go to one place, one of them is there: eager refuses that, or says nothing of which.

    In the torch stage `storage_offset` counts from the first element of `x`.
    """
    position = expr(storage_offset or 0)
    for i, step in enumerate(stride):
        position = position + dim(i) * step
    if INSIDE not in c.op.attributes and not stays_inside(x, position, size):
        raise NoRule("what it writes may lie outside of the tensor, in the rest of its storage")
    index = storage_index(x, position, len(size))

    def store(at, dest):
        builders.store(builders.read(source, at), dest, c.apply(index, at))

    return c.scatter(x, shape_of(source), store, any_order=True)
