"""The base class of a pass's work on one graph function: the ops at its top level, who uses a value, remarks."""

from collections.abc import Iterator

from ..analysis.memory.buffers import ALIASES
from ..ir import builders
from ..mlir import ir
from ..remarks.attribute import add_remark
from ..remarks.record import Remark


class GraphWalk:
    """A graph function under a pass, whose subclass holds what the pass decides about it. `ops` are those of its block as they stand when the
    walk is made, `symbols` its leading arguments."""

    def __init__(self, function: ir.Operation):
        self.function = function
        self.block = function.regions[0].blocks[0]
        self.ops = [view.operation for view in self.block.operations]
        self.symbols = builders.symbols_of(function)

    @staticmethod
    def users(value: ir.Value) -> Iterator[ir.Operation]:
        """The ops that use a value or a view of it, once for each use; a view itself is no user."""
        for use in value.uses:
            user = use.owner.operation
            if user.name in ALIASES:
                yield from GraphWalk.users(user.results[0])
            else:
                yield user

    @staticmethod
    def remark(op: ir.Operation, remark: Remark | str) -> None:
        """Adds a remark to those that `op` has."""
        add_remark(op, remark)
