"""Passes that make numbers wrong by a thousandth, each in one place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import arith, ir
from bascule.dialect.passes import Pass

WRONG = 1.001


def spoil(op: ir.Operation, number: int) -> None:
    """What `op` stores or yields, its operand `number`, times `WRONG`."""
    with ir.InsertionPoint(op), op.location:
        value = op.operands[number]
        op.operands[number] = arith.mulf(value, arith.constant(value.type, WRONG))


def stores(function: ir.Operation) -> Iterator[ir.Operation]:
    """Those of floats."""
    for op in ops_in(function):
        if op.name == "bascule.store" and isinstance(op.operands[0].type, ir.F32Type):
            yield op


@dataclass(frozen=True)
class SpoilKernel(Pass):
    """Takes kernels; leaves the first store of the one whose name begins with `kernel` wrong by a thousandth."""

    name: ClassVar[str] = "spoil-kernel"
    kernel: str = "tanh"

    def run(self, module):
        with module.context:
            for function in functions(module):
                if kernel_op(function) is not None and function.attributes["sym_name"].value.startswith(self.kernel):
                    spoil(next(stores(function)), 0)


@dataclass(frozen=True)
class SpoilCompute(Pass):
    """Takes the tensor stage; leaves the compute made of `operator` wrong by a thousandth."""

    name: ClassVar[str] = "spoil-compute"
    operator: str = "aten.tanh.default"

    def run(self, module):
        with module.context:
            for op in ops_in(module.operation):
                if op.name == "bascule.compute" and self.operator in str(op.location):
                    spoil(op.regions[0].blocks[0].operations[len(op.regions[0].blocks[0].operations) - 1].operation, 0)
                    return
