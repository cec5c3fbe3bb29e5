"""The pass `overlap-host-copies`: copies to the host begin early, copies back in time, so that they run beside what computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.call_steps import steps_of
from ...collectives.costs import CallCosts
from ...host_copies.arrangement import Copy, arranged
from ...host_copies.calls import HostCopy, host_copies
from ...ir.attribute_names import HOST_COPIES
from ...ir.attributes import i64
from ...ir.functions import COPIES_AHEAD, graph_functions
from ...machines.measures import value
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class OverlapHostCopies(Pass):
    """Takes the kernel stage with its calls in an order; leaves the copies to the host and back of a memory budget in places where they run
    beside what computes, which keeps its order.

    A copy to the host begins when there is what it copies, and is waited for when it should be done, so that this has no memory from then on. A
    copy back is waited for right before its first reader, and begins as early as may be. `bascule.copies_ahead` on the graph function are the
    bytes that may be under way (without it those of the largest copy, twice): more wait for the oldest. Times are of `machine` and
    `link`. `bascule.host_copies` on the graph function tells `bytes`, and the `seconds` of the copies and those `exposed`, in which nothing
    is computed, as simulated.
    """

    name: ClassVar[str] = "overlap-host-copies"
    takes: ClassVar[str] = VALUES
    machine: str = "h200"
    link: str = "pcie"

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._arrange(graph, table)

    def _arrange(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        *ops, end = [op.operation for op in graph.regions[0].blocks[0].operations]
        found = host_copies(ops, table)
        if not found:
            return
        steps, *_ = steps_of(ops, end, table, in_order=False)
        after, costs = [step.after for step in steps], CallCosts(self.machine)
        own = {number for copy in found for number in (copy.begin, copy.wait)}
        times = [0.0 if number in own else costs.call(op, table)[0] for number, op in enumerate(ops)]
        copies = [self._copy(copy, ops, after) for copy in found]
        largest = max(copy.bytes for copy in found)
        window = graph.attributes[COPIES_AHEAD].value if COPIES_AHEAD in graph.attributes else 2 * largest
        told = arranged(len(ops), times, copies, window)
        for number in told.order:
            ops[number].move_before(end)
        seconds = {"seconds": told.seconds, "exposed": told.exposed}
        numbers = {name: ir.FloatAttr.get_f64(number) for name, number in seconds.items()}
        graph.attributes[HOST_COPIES] = ir.DictAttr.get(numbers | {"bytes": i64(sum(copy.bytes for copy in found))})

    def _copy(self, copy: HostCopy, ops: Sequence[ir.Operation], after: Sequence[set[int]]) -> Copy:
        rate = value(self.link, "to_host" if copy.leaves else "to_device")
        seconds = value(self.link, "latency") + copy.bytes / rate
        along, reader = list[int](), len(ops)
        if not copy.leaves:
            for number in range(copy.wait + 1, len(ops)):
                if after[number] & {copy.wait, *along}:
                    if ops[number].name == "func.call" or not after[number] <= {copy.wait, *along}:
                        reader = number
                        break
                    along.append(number)
        source = max((number for number in after[copy.begin]), default=-1)
        return Copy(copy.begin, copy.wait, copy.bytes, seconds, copy.leaves, source, reader, tuple(along))
