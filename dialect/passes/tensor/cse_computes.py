"""The pass `cse-computes`: MLIR's cse, in a time that grows with the graph."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.bodies.body_summary import PRODUCERS
from ...ir.attributes import i64
from ...ir.functions import graph_functions
from ...ir.regions import ops_in
from ...mlir import ir, passmanager
from ..base import VALUES, Pass

READS = "bascule.reads"  # while the pass runs, on a compute: the number of its class


@dataclass(frozen=True)
class CseComputes(Pass):
    """Takes the tensor stage; leaves one op of equal ones, in bodies and of computes, scans and views: what `cse` does.

    `cse` compares computes of one type pair by pair, as a compute captures what it reads and has no operands to tell it by: the square
    of a graph's layers. Here each has its class for an attribute while `cse` runs: its ranges and the classes of what it reads.
    """

    name: ClassVar[str] = "cse-computes"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                _mark(graph)
            passmanager.PassManager.parse("builtin.module(cse)").run(module.operation)
            for graph in graph_functions(module):
                for view in graph.regions[0].blocks[0].operations:
                    if READS in view.operation.attributes:
                        del view.operation.attributes[READS]


def _mark(graph: ir.Operation) -> None:
    """Puts the classes on the computes of a graph function. Equal computes are of one class; those of one class need not be equal."""
    classes: dict[tuple, int] = {}
    of: dict[ir.Value, int] = {}
    block = graph.regions[0].blocks[0]
    for view in block.operations:
        op = view.operation
        name = op.name
        if name in PRODUCERS or name == "bascule.view":
            key = (name, tuple(_known(value, of) for value in op.operands), op.results[0].type, *_reads(op, of))
            if name == "bascule.view":
                key = (*key, op.attributes["map"])
            number = classes.setdefault(key, len(classes))
            of[op.results[0]] = number
            if name != "bascule.view":
                op.attributes[READS] = i64(number)


def _reads(op: ir.Operation, of: dict[ir.Value, int]) -> list:
    if not len(op.regions):
        return []
    reads = (inner.operands[0] for inner in ops_in(op) if inner.name == "tensor.extract")
    return [op.attributes["ranges"], *(_known(source, of) for source in reads)]


def _known(value: ir.Value, of: dict[ir.Value, int]) -> object:
    """The class of a value; of one that has none, the value itself."""
    return of.get(value, value)
