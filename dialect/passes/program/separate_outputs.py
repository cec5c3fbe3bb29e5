"""The pass `separate-outputs`: results that are tensors of their own in the user's program are so in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.buffers import ALIASES, Sizes, alloc, root_of
from ...ir import builders
from ...ir.functions import STORAGES, graph_functions
from ...ir.regions import end_of
from ...mlir import ir, memref
from ..base import BUFFERS, Pass


@dataclass(frozen=True)
class SeparateOutputs(Pass):
    """Takes and leaves the program stage, before `plan-memory`. Where two results of a graph function lie in one buffer that had a storage
    each in the imported graph (`bascule.storages`: equal computations became one), the later gets a copy; so does a result that is an
    argument and was not. Tensors saved for the backward (-1) may share memory with others of them.

    Whoever writes to one output of a compiled function must not see another change.
    """

    name: ClassVar[str] = "separate-outputs"
    takes: ClassVar[str] = BUFFERS

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                if STORAGES in graph.attributes:
                    _Outputs(graph, table).separate(list(graph.attributes[STORAGES]))


class _Outputs:
    def __init__(self, graph: ir.Operation, table: ir.SymbolTable):
        block = graph.regions[0].blocks[0]
        self.arguments = [a for a in block.arguments if isinstance(a.type, ir.MemRefType)]
        self.symbols = builders.symbols_of(graph)
        self.sizes = Sizes(graph, table)
        self.end = end_of(block)
        self.copies: dict[tuple[ir.Value, int], ir.Value] = {}  # root and storage -> the copy of that root

    def separate(self, storages: Sequence[int]) -> None:
        """`storages`: a number for each tensor argument, then for each result; equal where the storage is one."""
        owners = dict(zip(self.arguments, storages))  # root -> the storage that it is
        with ir.InsertionPoint(self.end), self.end.location:
            for number, (value, storage) in enumerate(zip(list(self.end.operands), storages[len(self.arguments) :])):
                if owners.setdefault(root_of(value), storage) != storage:
                    self.end.operands[number] = self._elsewhere(value, storage)

    def _elsewhere(self, value: ir.Value, storage: int) -> ir.Value:
        """`value` in a copy of its root, that of `storage`."""
        if not isinstance(value.owner, ir.Block) and value.owner.name in ALIASES:
            op = value.owner.operation
            source = self._elsewhere(op.operands[0], storage)
            moved = op.clone()
            moved.operands[0] = source
            return moved.results[0]
        if (value, storage) not in self.copies:
            copy = alloc(value.type, self.sizes.of(value), self.symbols)
            memref.CopyOp(value, copy)
            self.copies[value, storage] = copy
        return self.copies[value, storage]
