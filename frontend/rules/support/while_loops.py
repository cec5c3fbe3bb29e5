"""Steps repeated inside a region as long as data says, of each element by itself: an `scf.while` of scalars."""

from collections.abc import Callable, Sequence

import torch
from bascule.dialect.mlir import ir

from .scalars import Scalar


def repeat(
    carried: Sequence[Scalar],
    condition: Callable[..., Scalar],
    step: Callable[..., Sequence[Scalar]],
) -> list[Scalar]:
    """`step` of the carried values as long as `condition` (bool) of them holds: what they are then.

    Both must be functions of the carried values and of values from before; it has to end for every value that an element may have.
    """
    dtypes = [x.dtype for x in carried]
    types = [x.value.type for x in carried]
    op = ir.Operation.create("scf.while", results=types, operands=[x.value for x in carried], regions=2)
    locations = [op.location] * len(types)
    before, after = (region.blocks.append(*types, arg_locs=locations) for region in op.regions)
    with ir.InsertionPoint(before):
        goes_on = condition(*_scalars(before.arguments, dtypes))
        ir.Operation.create("scf.condition", operands=[goes_on.value, *before.arguments])
    with ir.InsertionPoint(after):
        values = step(*_scalars(after.arguments, dtypes))
        ir.Operation.create("scf.yield", operands=[x.value for x in values])
    return _scalars(op.results, dtypes)


def _scalars(values: Sequence[ir.Value], dtypes: Sequence[torch.dtype]) -> list[Scalar]:
    return [Scalar(value, dtype) for value, dtype in zip(values, dtypes)]
