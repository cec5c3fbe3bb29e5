"""The unpooling of maxima: each element goes to the place in its output volume that the pooling told."""

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import shape_of

from ...conversion.index_maps import delinearize, dim, element_count
from ...conversion.registry import rule
from ..index.indexing import position
from ..index.scatter import filled, scattered
from ..support.operands import read, tensor_dtype
from ..support.requirements import require_sizes


@rule("aten.max_unpool2d.default", "aten.max_unpool3d.default")
def max_unpool(c, x, index, output_size, *_):
    sizes = shape_of(x)
    require_sizes(index, sizes)
    volume = c.result_sizes[0][len(sizes) - len(output_size) :]
    outer = len(sizes) - len(volume)

    def write(at):
        place = position(c, builders.read(index, at), element_count(volume), wrap=False)
        return [*at[:outer], *c.apply(delinearize(dim(0), volume, 1), [place])], read(x, at)

    return scattered(c, filled(c, 0, tensor_dtype(x)), sizes, write)
