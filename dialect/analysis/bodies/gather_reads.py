"""Which reads neighbours along memory make at places that data says: vector by vector, each lane is read on its own."""

from ...mlir import ir
from ..affine.fastest_dim import fastest_dim
from .backward_slice import needed
from .body_summary import Body


def gathers(body: Body) -> bool:
    """Whether a compute reads at indices from data that differ between neighbours along the dim in which its result's memory runs."""
    lane = fastest_dim(body.result.type)
    if lane is None or not body.reads:
        return False
    along = body.op.regions[0].blocks[0].arguments[lane]
    known: dict[ir.Value, tuple[bool, bool]] = {}
    return any(any(_look(index, along, known)[1] for index in list(read.op.operands)[1:]) for read in body.reads)


def reads_by_data(body: Body) -> bool:
    """Whether a compute reads at an index that is computed from what it read."""
    block = body.op.regions[0].blocks[0]
    reads = [read for read in body.reads if read.op.block == block]
    return any(
        op.name == "tensor.extract" for op in needed([i for r in reads for i in [*r.op.operands][1:]], block).ops
    )


def _look(value: ir.Value, along: ir.Value, known: dict[ir.Value, tuple[bool, bool]]) -> tuple[bool, bool]:
    """Whether `value` varies along the index `along`, and whether by way of what was read."""
    if value == along:
        return True, False
    if value in known or isinstance(value.owner, ir.Block):
        return known.get(value, (False, False))
    op = value.owner
    parts = [_look(operand, along, known) for operand in op.operands]
    varies = any(part[0] for part in parts)
    known[value] = varies, any(part[1] for part in parts) or (varies and op.name == "tensor.extract")
    return known[value]
