"""The pass `group-launches`: equal, independent kernels over many small tensors become one launch."""

from collections import defaultdict
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.costs import tensor_bytes
from ...errors import UserError
from ...fusion.horizontal import joined, joining
from ...ir.functions import graph_functions, kernel_op
from ...ir.memory_ops import CopyIntoOp
from ...mlir import func, ir
from ...remarks.attribute import keep_remarks
from ...scheduling.gpu.domains import Domain
from ...scheduling.gpu.few_row_products import summed
from ...scheduling.gpu.machine import H200, PARAMETERS
from ...scheduling.gpu.tuned_products import has_tuned_product
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk

SMALL = 1 << 16  # bytes of a result that may live longer than it must
LARGE = 1 << 19  # bytes of a result, a multiprocessor: a kernel that writes more hides its launch
TINY = 1 << 10  # bytes of results of one program or so
FEW = 4  # times more calls of those join: to choose among so many more addresses is cheaper than a launch
ENDS = {CopyIntoOp.OPERATION_NAME, "func.return"}


@dataclass(frozen=True)
class GroupLaunches(Pass):
    """Takes the kernel stage before schedules; leaves one call of a kernel without ranges, a foreach a member, in place of up to `most` calls
    of one kernel function that do not depend on each other. An optimizer's step over 128 tensors is a handful of launches. Products of a row by
    matrices (queries, keys and values) join though they are of several sizes, if their sums are of one length.

    Only calls whose results are written to arguments or returned (what is made of arguments may be used before), or are small: what is made
    earlier than it must be would take memory longer. Results so large that `sm-count` multiprocessors take longer to write them than a launch
    takes stay alone. Calls with dynamic sizes stay as they are. For a CPU, where a launch costs little,
    nothing changes.
    """

    name: ClassVar[str] = "group-launches"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    most: int = 16  # a program chooses its addresses among so many
    sm_count: int = H200.sm_count

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.most < 2:
            raise UserError(f"option 'most' cannot be {self.most}", location=self.name, hint="2 or more")
        if self.target == "cpu":
            return
        with module.context, joining(module) as (table, kernels):
            for graph in graph_functions(module):
                _Graph(graph, table, kernels, self.most, self.sm_count).run()


class _Graph(GraphWalk):
    """One graph function. Ops of one level do not depend on each other."""

    def __init__(
        self, graph: ir.Operation, table: ir.SymbolTable, kernels: dict[str, ir.Operation], most: int, sm_count: int
    ):
        super().__init__(graph)
        self.machine, self.large = replace(H200, sm_count=sm_count), LARGE * sm_count
        self.table, self.kernels, self.most = table, kernels, most
        self.merged: dict[tuple[str, ...], str] = {}
        self.families: dict[str, str | int] = {}
        self.simplifier = Simplifier()
        self.readers: dict[ir.Value, list[int]] = defaultdict(list)  # the ops that use a value

    def run(self) -> None:
        before = self._dependencies()
        levels: list[int] = []
        for needed in before:
            levels.append(1 + max((levels[n] for n in needed), default=-1))
        alike: dict[tuple, list[int]] = defaultdict(list)
        for number, op in enumerate(self.ops):
            if self._joins(op):
                alike[levels[number], self._family(op.attributes["callee"].value)].append(number)
        groups = []
        for members in alike.values():
            parameters = max(len(self.ops[n].operands) + len(self.ops[n].results) for n in members)
            tiny = all(tensor_bytes(result) <= TINY for result in self.ops[members[0]].results)
            most = max(1, min(self.most * FEW if tiny else self.most, PARAMETERS // parameters))
            pieces = -(-len(members) // most)
            size = -(-len(members) // pieces)
            groups += [members[i : i + size] for i in range(0, len(members), size)]
        groups = [members for members in groups if len(members) > 1]
        if groups:
            self._reorder(before, groups)
            for members in groups:
                self._merge([self.ops[n] for n in members])

    def _family(self, callee: str) -> str | int:
        """The key by which kernels join: the function, or the length of the sums of products of a row."""
        if callee not in self.families:
            domain = Domain.of(kernel_op(self.kernels[callee]), self.machine, Indexing([], self.simplifier))
            self.families[callee] = summed(domain) or callee
        return self.families[callee]

    def _dependencies(self) -> list[set[int]]:
        """For each op, the numbers of those that must come before it: what it uses, and of effects the one before, and of a copy into an
        argument all that read the argument."""
        number = {op: n for n, op in enumerate(self.ops)}
        readers = self.readers
        before: list[set[int]] = []
        effect = None
        for n, op in enumerate(self.ops):
            needed = set()
            for operand in op.operands:
                owner = operand.owner
                if not isinstance(owner, ir.Block):
                    needed.add(number[owner])
                readers[operand].append(n)
            if not self._is_kernel(op) and op.name in ("func.call", CopyIntoOp.OPERATION_NAME, "func.return"):
                if effect is not None:
                    needed.add(effect)
                effect = n
            if op.name == CopyIntoOp.OPERATION_NAME:
                needed.update(m for m in readers[op.operands[1]] if m != n)
            if op.name == "func.return":
                needed.update(range(n))
            before.append(needed)
        return before

    def _is_kernel(self, op: ir.Operation) -> bool:
        return op.name == "func.call" and op.attributes["callee"].value in self.kernels

    def _joins(self, op: ir.Operation) -> bool:
        if not self._is_kernel(op) or not len(op.results):
            return False
        kernel = kernel_op(self.kernels[op.attributes["callee"].value])
        assert kernel is not None  # `kernels` holds nothing else
        block = kernel.regions[0].blocks[0]
        if has_tuned_product(block):
            return False  # it was measured alone
        if not len(block.arguments) and any(view.operation.name == "bascule.foreach" for view in block.operations):
            return False  # a group already, or one point with loops
        types = [value.type for value in (*op.operands, *op.results)]
        if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types):
            return False
        given = all(isinstance(operand.owner, ir.Block) for operand in op.operands)
        return all(self._lasts(result, given) for result in op.results)

    def _lasts(self, result: ir.Value, given: bool) -> bool:
        """Whether the value is small, or needed to the end anyway and not large; what is used before, too, if it is made of arguments (`given`):
        weights in another dtype, which a backward reads again."""
        size = tensor_bytes(result)
        if size <= SMALL:
            return True
        users = {user.name for user in self.users(result)}
        if size > self.large or not users:
            return size <= self.large
        return users <= ENDS or (given and "func.return" in users)

    def _reorder(self, before: list[set[int]], groups: list[list[int]]) -> None:
        """Puts the members of each group next to each other, and else keeps the order as far as that allows."""
        leader = {n: members[0] for members in groups for n in members}
        members = {group[0]: group for group in groups}
        needed: dict[int, set[int]] = defaultdict(set)
        after: dict[int, set[int]] = defaultdict(set)
        for n, earlier in enumerate(before):
            node = leader.get(n, n)
            for m in earlier:
                other = leader.get(m, m)
                if other != node and other not in needed[node]:
                    needed[node].add(other)
                    after[other].add(node)
        waiting = {leader.get(n, n): len(needed[leader.get(n, n)]) for n in range(len(self.ops))}
        rank = {node: (members.get(node, [node])[-1], node) for node in waiting}
        first = dict(rank)
        for node in filter(lambda n: self._is_kernel(self.ops[n]), waiting):
            others = [first[leader.get(n, n)] for n in self._overwritten(members.get(node, [node]))]
            rank[node] = max([rank[node], *((last, len(self.ops)) for last, _ in others)])
        self._hurry(rank, needed)
        ready: list[tuple[tuple[int, int], int]] = []
        for node, count in waiting.items():
            if not count:
                heappush(ready, (rank[node], node))
        end = self.ops[-1]
        while ready:
            _, node = heappop(ready)
            for n in members.get(node, [node]):
                if self.ops[n] != end:
                    self.ops[n].move_before(end)
            for later in after[node]:
                waiting[later] -= 1
                if not waiting[later]:
                    heappush(ready, (rank[later], later))

    def _hurry(self, rank: dict[int, tuple[int, int]], needed: dict[int, set[int]]) -> None:
        """Gives what a call needs the rank of the call, where that is lower: else all that comes before the last member of a group, and
        waits for nobody, would come before the first user of the group too, and last long."""
        todo = [(place, node) for node, place in rank.items() if self.ops[node].name == "func.call"]
        heapify(todo)
        while todo:
            place, node = heappop(todo)
            for earlier in needed[node]:
                if place < rank[earlier]:
                    rank[earlier] = place
                    heappush(todo, (place, earlier))

    def _overwritten(self, members: list[int]) -> set[int]:
        """The other kernel calls that read arguments into which results of the members, that nothing else uses, are copied: after
        those the members may write to the arguments themselves."""
        found: set[int] = set()
        for n in members:
            for result in self.ops[n].results:
                users = [use.owner for use in result.uses]
                if all(user.name == CopyIntoOp.OPERATION_NAME for user in users):
                    found.update(
                        m for user in users for m in self.readers[user.operands[1]] if self._is_kernel(self.ops[m])
                    )
        return found - set(members)

    def _merge(self, calls: list[ir.Operation]) -> None:
        operands = [operand for call in calls for operand in call.operands]
        results = [result for call in calls for result in call.results]
        types = [value.type for value in results]
        callees = tuple(call.attributes["callee"].value for call in calls)
        name = self.merged.get(callees)
        if name is None:
            type_ = ir.FunctionType.get([value.type for value in operands], types)
            wish = f"{callees[0]}_x{len(calls)}" if len(set(callees)) == 1 else f"{callees[0]}_and_{len(calls) - 1}"
            ends = list(accumulate(len(call.operands) for call in calls))
            members = [(self.kernels[c], range(b, e)) for c, b, e in zip(callees, [0, *ends], ends)]
            name = self.merged[callees] = joined(self.function, self.table, members, type_, wish)
        with ir.InsertionPoint(calls[-1]), ir.Location.fused([call.location for call in calls]):
            call = func.CallOp(types, name, operands).operation
        for old, new in zip(results, call.results):
            old.replace_all_uses_with(new)
        keep_remarks(call, calls)
        for old_call in calls:
            old_call.erase()
