"""The pass `isolate-kernels`: a kernel computes the numbers it needs from symbols itself."""

from dataclasses import dataclass
from typing import ClassVar

from ...ir.functions import functions, kernel_op
from ...mlir import ir
from ..base import EITHER, Pass


@dataclass(frozen=True)
class IsolateKernels(Pass):
    """Takes and leaves kernel functions. An `affine.apply` or constant before the `bascule.kernel`, of a destination's size, that `cse` made
    the kernel use too is repeated inside it: all that a lowering sees from outside of a kernel are the function's arguments and destinations.
    """

    name: ClassVar[str] = "isolate-kernels"
    takes: ClassVar[str] = EITHER

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None:
                    _isolate(function, kernel)


def _isolate(function: ir.Operation, kernel: ir.Operation) -> None:
    for op in reversed(list(function.regions[0].blocks[0].operations)):  # the copy of an operand goes before
        if op.operation.name in ("affine.apply", "arith.constant"):
            _repeat(op.operation, kernel)


def _repeat(op: ir.Operation, kernel: ir.Operation) -> None:
    """Gives the users of `op` inside `kernel` a copy of it."""
    value, outside = op.results[0], op.block
    inside = [use for use in value.uses if use.owner.operation.block != outside]
    if inside:
        copy = op.clone(ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]))
        for use in inside:
            use.owner.operation.operands[use.operand_number] = copy.results[0]
