"""`histc`: how many elements lie in each of equal bins."""

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import shape_of

from ...conversion.registry import NoRule, rule
from ..shape.creation import constant
from ..support.operands import dtype_of_result, index_constant, known_numbers, read
from ..support.scalars import Scalar, create, opmath, select


@rule("aten.histc.default")
@known_numbers("bins", "low", "high")
def histc(c, x, bins=100, low=0, high=0):
    """The last bin has its upper end in it; what lies outside, NaN too, is counted nowhere."""
    dtype = dtype_of_result(c)
    if low >= high or opmath(dtype) != dtype or not dtype.is_floating_point:
        raise NoRule("bins whose ends depend on data")
    inside = opmath(dtype)

    def count(at, dest):
        value = read(x, at).to(inside)
        counted = (value >= low) & (value <= high)
        place = select(counted, (value - low) * bins / (high - low), 0.0).to(torch.int64).minimum(bins - 1)
        index = create("arith.index_cast", index_constant(0).type, place.value)
        one = select(counted, Scalar.constant(1, dtype), Scalar.constant(0, dtype))
        builders.store(one.value, dest, [index], "add")

    return c.scatter(constant(c, 0), shape_of(x), count)
