"""Assertions about the elements of a tensor: only an operator of ATen's, or a function of the runtime's, can raise."""

from functools import partial

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import arith, ir

from ...conversion.index_maps import delinearize, dim, dims, element_count, linearize
from ...conversion.registry import LeftToAten, rule
from ..index.indexing import is_empty
from ..support.index_values import as_index, as_integer, choose, clamped, compare, extent, when
from ..support.operands import number_scalar, read
from ..support.scalars import Scalar


@rule(
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "bascule.check_index.default",
    "bascule.check_indexed_size.default",
)
def assertion(c, *arguments):
    raise LeftToAten("an assertion")


@rule("bascule.first_outside.default")
def first_outside(c, index, first, end):
    """The smallest place of an index out of range, which no place is larger than; and what is there, read at that place alone."""
    sizes, i64 = shape_of(index), ir.IntegerType.get_signless(64)
    none = torch.iinfo(torch.int64).max

    def constant_at(number, at):
        return Scalar.constant(number, torch.int64).value

    def outside(at):
        value = read(index, at).to(torch.int64)
        low, high = (number_scalar(c, end_, torch.int64) for end_ in (first, end))
        (place,) = c.apply([linearize(dims(len(sizes)), sizes)], at)
        beyond = arith.OrIOp((value < low).value, (value >= high).value).result
        return choose(beyond, as_integer(place), Scalar.constant(none, torch.int64).value)

    if is_empty(sizes):
        return [c.compute(partial(constant_at, number), i) for i, number in enumerate((none, 0))]
    place = c.compute(lambda at: builders.reduce("min", sizes, i64, outside)[0])

    def found(at):
        number = as_index(builders.read(place, []))
        inside = clamped(number, extent(c, element_count(sizes) - 1))

        def there():
            return read(index, c.apply(delinearize(dim(0), sizes, 1), [inside])).to(torch.int64).value

        is_one = compare("eq", inside, number)
        return when(is_one, i64, there, lambda: Scalar.constant(0, torch.int64).value)

    return [place, c.compute(found, 1)]
