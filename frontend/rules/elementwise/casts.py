"""Conversions. The user's own are marked: arithmetic on 16 bits may take what they round before it is, another conversion may not. One to
integers jumps, and takes what is rounded; so does one that is marked to."""

from bascule.dialect.ir.types import CAST, STORED
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ...conversion.torch_stage import DECOMPOSED
from ..support.operands import Operand, broadcast, dtype_of_result, number_scalar, read, tensor_dtype


def convert(c: Conversion, x: Operand) -> ir.Value:
    """`x`, broadcast to the result's sizes, in its dtype. A cast in another operator's decomposition rounds as that operator does."""
    dtype, rounding = dtype_of_result(c), c.asked.eager_rounding
    mark = None if DECOMPOSED in c.op.attributes else CAST if dtype.is_floating_point else STORED
    if STORED in c.op.attributes:
        mark = STORED
    if not isinstance(x, ir.Value):
        return c.compute(lambda at: number_scalar(c, x, dtype).value)
    tensor_dtype(x)  # refused before anything is built
    indices = broadcast(x, c.result_sizes[0])
    return c.compute(lambda at: read(x, indices(at)).to(dtype, rounding=rounding, mark=mark).value)


@rule(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten.to.prim_Device",
    "aten.to.prim_dtype",
    "aten.type_as.default",
    "prims.convert_element_type.default",
)
def to(c, x, *_):
    return convert(c, x)


@rule("aten.copy.default")
def copy(c, x, source, *_):
    """`source` under the sizes and the dtype of `x`; a copy rounds as a cast does."""
    return convert(c, source)
