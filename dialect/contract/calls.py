"""Calls: what is made has the sizes that the function tells, and a kernel has the symbols of its caller."""

from collections.abc import Mapping

from ..errors import UserError
from ..ir.functions import SHAPES, is_extern, kernel_op
from ..ir.locations import source_of
from ..ir.types import symbols_among
from ..mlir import ir


def check_call(op: ir.Operation, callees: Mapping[str, ir.Operation]) -> None:
    """Refuses a call whose `bascule.shapes` are others than its function's, or by which symbol K of a kernel is another than the caller's."""
    callee = callees.get(op.attributes["callee"].value)
    if callee is None:
        return
    if SHAPES in op.attributes and len(op.results):
        known = callee.attributes[SHAPES] if SHAPES in callee.attributes else None
        if (known is None or op.attributes[SHAPES] != known) and not all(
            result.type.has_static_shape for result in op.results
        ):
            raise UserError(
                f"'{SHAPES}' of the call are {op.attributes[SHAPES]}: those of @{callee.attributes['sym_name'].value} are {known}",
                location=source_of(op.location),
            )
    if is_extern(callee) or kernel_op(callee) is None:
        return
    for number, value in enumerate(list(op.operands)[: symbols_among(operand.type for operand in op.operands)]):
        owner = value.owner
        of_caller = isinstance(owner, ir.Block) and owner.owner.operation.name == "func.func"
        if not of_caller or ir.BlockArgument(value).arg_number != number:
            raise UserError(
                f"symbol {number} of the kernel @{callee.attributes['sym_name'].value} is not symbol {number} of its caller",
                location=source_of(op.location),
                hint="a kernel takes all symbols of the graph, in the same order",
            )
