"""Losses of which eager looks at the elements: kept whole up to here, so that a check can stand before them."""

from bascule.dialect.ir.shapes import shape_of

from ...conversion.registry import rule
from ..support.axes import Axes
from ..support.operands import dtype_of_result, elementwise, reader, temporary
from ..support.requirements import refused_beyond, require_dtype
from ..support.scalars import Scalar, opmath
from .reductions import mean_of, total

NONE, MEAN = 0, 1  # `at::Reduction`
LEAST_LOG = -100.0


@rule("aten.binary_cross_entropy.default")
def binary_cross_entropy(c, x, target, weight=None, reduction=MEAN):
    """(target - 1) log(1 - x) - target log(x), the logarithms not under -100, times `weight`."""
    require_dtype(target, x)

    def loss(x: Scalar, target: Scalar, *weights: Scalar) -> Scalar:
        x, target = refused_beyond(c, x, 0, 1), refused_beyond(c, target, 0, 1)
        kept, lost = (-x).log1p().maximum(LEAST_LOG), x.log().maximum(LEAST_LOG)
        value = (target - 1.0) * kept - target * lost
        return value * weights[0] if weights else value

    operands = [x, target] if weight is None else [x, target, weight]
    if reduction == NONE:
        return elementwise(c, loss, *operands)
    sizes, inside = shape_of(x), opmath(dtype_of_result(c))
    readers = [reader(c, operand, sizes, inside) for operand in operands]
    axes = Axes.of(temporary(sizes, inside, lambda at: loss(*(r(at) for r in readers))), None)
    return mean_of(c, axes) if reduction == MEAN else total(c, "sum", axes)
