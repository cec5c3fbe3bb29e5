"""The pass `join-launches`: small kernels that follow each other and do not depend on each other become one launch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.costs import tensor_bytes
from ...analysis.memory.buffers import ALIASES, root_of
from ...fusion.horizontal import joined, joining
from ...ir.functions import graph_functions, kernel_op
from ...ir.regions import ops_in
from ...mlir import func, ir
from ...remarks.attribute import keep_remarks
from ...scheduling.gpu.machine import PARAMETERS
from ...steering.asking import is_steered, may_fuse
from ...steering.hooks import Fusion
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk

SMALL = 1 << 18  # bytes that a kernel reads and writes, up to which its launch takes longer than its work
LOOPS = ("bascule.reduce", "bascule.scan", "bascule.compute", "scf.for")


@dataclass(frozen=True)
class JoinLaunches(Pass):
    """Takes the kernel stage before schedules; leaves one call of a kernel without ranges, a foreach a member, in place of up to `most` calls
    of small kernels that follow each other, if none needs a result of another and each computes points without loops. What rotates the
    queries and the keys of one token, and what repeats its values, is one launch.

    Where calls of one kernel are far apart, `group-launches` brings them together. Calls with dynamic sizes stay as they are. For a CPU,
    where a launch costs little, nothing changes.
    """

    name: ClassVar[str] = "join-launches"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    most: int = 8

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context, joining(module) as (table, kernels):
            for graph in graph_functions(module):
                _Graph(graph, table, kernels, self.most).run()


class _Graph(GraphWalk):
    """One graph function, and the kernels that it calls."""

    def __init__(self, graph: ir.Operation, table: ir.SymbolTable, kernels: dict[str, ir.Operation], most: int):
        super().__init__(graph)
        self.table, self.kernels, self.most = table, kernels, most
        self.small: dict[str, bool] = {}  # kernel function -> whether calls of it may be joined
        self.made: dict[tuple, str] = {}  # members and how they share operands -> the joined function

    def run(self) -> None:
        group: list[ir.Operation] = []
        for op in self.ops:
            if op.name in ALIASES:
                continue  # of a member's result: its users end the group
            if group and (not self._joins(op) or len(group) == self.most or not self._may_join(op, group)):
                self._join(group)
                group = []
            if self._joins(op):
                group.append(op)

    def _joins(self, op: ir.Operation) -> bool:
        if op.name != "func.call" or op.attributes["callee"].value not in self.kernels:
            return False
        name = op.attributes["callee"].value
        if name not in self.small:
            self.small[name] = self._is_small(op, kernel_op(self.kernels[name]))
        return self.small[name]

    @staticmethod
    def _is_small(op: ir.Operation, kernel: ir.Operation) -> bool:
        values = (*op.operands, *op.results)
        if not all(isinstance(v.type, ir.RankedTensorType) and v.type.has_static_shape for v in values):
            return False
        if sum(tensor_bytes(v) for v in values) > SMALL or not len(kernel.regions[0].blocks[0].arguments):
            return False
        return not any(inner.name in LOOPS for inner in ops_in(kernel) if inner != kernel)

    def _may_join(self, op: ir.Operation, group: Sequence[ir.Operation]) -> bool:
        if self._needs(op, group):
            return False
        if not is_steered():
            return True
        kernels = [kernel_op(self.kernels[call.attributes["callee"].value]) for call in (*group, op)]
        ops = sum(Body(kernel).ops for kernel in kernels)
        return may_fuse(Fusion(JoinLaunches.name, tuple(group), (op,), 0, ops, True, ""))

    @staticmethod
    def _needs(op: ir.Operation, group: Sequence[ir.Operation]) -> bool:
        """Whether `op` reads what a member makes, or the group has no room for what it reads and writes."""
        owners = [root_of(v).owner for v in op.operands]
        parameters = sum(len(member.operands) + len(member.results) for member in (*group, op))
        return any(owner in group for owner in owners) or parameters > PARAMETERS

    def _join(self, calls: Sequence[ir.Operation]) -> None:
        if len(calls) < 2:
            return
        operands = list(dict.fromkeys(v for call in calls for v in call.operands))
        places = [tuple(operands.index(v) for v in call.operands) for call in calls]
        results = [result for call in calls for result in call.results]
        names = [call.attributes["callee"].value for call in calls]
        key = tuple(zip(names, places))
        types = [value.type for value in results]
        if key not in self.made:
            type_ = ir.FunctionType.get([value.type for value in operands], types)
            members = [(self.kernels[name], numbers) for name, numbers in key]
            self.made[key] = joined(self.function, self.table, members, type_, f"{names[0]}_and_{len(calls) - 1}")
        with ir.InsertionPoint(calls[0]), ir.Location.fused([call.location for call in calls]):
            call = func.CallOp(types, self.made[key], operands).operation
        for operand in operands:  # a view may stand between the members
            self._before(operand, call)
        for old, new in zip(results, call.results, strict=True):
            old.replace_all_uses_with(new)
        keep_remarks(call, calls)
        for old_call in calls:
            old_call.erase()

    def _before(self, value: ir.Value, call: ir.Operation) -> None:
        """Moves views that make `value` before `call`, if they stand behind it."""
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in ALIASES or owner.operation.is_before_in_block(call):
            return
        for operand in owner.operation.operands:
            self._before(operand, call)
        owner.operation.move_before(call)
