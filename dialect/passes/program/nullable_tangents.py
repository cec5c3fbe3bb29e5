"""The pass `nullable-tangents`: gradients of zeros that autograd does not give have no memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...ir.functions import DIES, NULLABLE, TANGENT, argument_attributes, graph_functions, kernel_op, mark_arguments
from ...mlir import ir
from ...scheduling.gpu.schedule_form import LoopSchedule, from_attribute
from ..base import BUFFERS, Pass, check_target

Places = dict[ir.Operation, set[int]]  # function -> numbers of its arguments


@dataclass(frozen=True)
class NullableTangents(Pass):
    """Takes and leaves the program stage, before `spare-arguments`. An argument of a graph function that is a gradient beside that of a loss
    (`bascule.tangent`: autograd has None for the logits of a model whose loss alone is differentiated) becomes `bascule.nullable`, and so does
    the argument of each kernel that takes it, where kernels alone read it, whole, in plain loads: its address may be 0, and then its elements
    are. Else, and on a CPU, it is `bascule.dies`, like any gradient: its caller makes zeros.
    """

    name: ClassVar[str] = "nullable-tangents"
    takes: ClassVar[str] = BUFFERS
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._decide(graph, table)

    def _decide(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        arguments = zip(graph.regions[0].blocks[0].arguments, argument_attributes(graph), strict=True)
        for number, (argument, told) in enumerate(arguments):
            if TANGENT in told:
                readers = None if self.target == "cpu" else _readers(argument, table)
                mark_arguments(graph, [number], DIES if readers is None else NULLABLE)
                for function, numbers in (readers or {}).items():
                    mark_arguments(function, numbers, NULLABLE)


def _readers(argument: ir.Value, table: ir.SymbolTable) -> Places | None:
    """The arguments of kernels that `argument` of a graph function is; None where something else uses it, or a kernel otherwise than by plain
    loads."""
    found: Places = {}
    for use in argument.uses:
        op = use.owner.operation
        function = table[op.attributes["callee"].value].operation if op.name == "func.call" else None
        if function is None or not _loads(function, use.operand_number):
            return None
        found.setdefault(function, set()).add(use.operand_number)
    return found


def _loads(function: ir.Operation, number: int) -> bool:
    """Whether `function` is a kernel that reads its argument point by point: tensor cores take tiles by descriptors, which have no masks."""
    kernel = kernel_op(function)
    if kernel is None or any(loop.dot for domain in from_attribute(kernel).domains for loop in _loops(domain.loops)):
        return False
    uses = function.regions[0].blocks[0].arguments[number].uses
    return all(use.owner.operation.name == "memref.load" for use in uses)


def _loops(loops: Sequence[LoopSchedule]) -> Iterator[LoopSchedule]:
    for loop in loops:
        yield loop
        yield from _loops(loop.loops)
