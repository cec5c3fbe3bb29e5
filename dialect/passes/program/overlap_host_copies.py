"""The pass `overlap-host-copies`: copies to the host begin early, copies back in time, so that they run beside what computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.assumed_sizes import SYMBOLS
from ...analysis.memory.call_order import Step, live_bytes
from ...analysis.memory.call_steps import steps_of
from ...collectives.costs import CallCosts
from ...host_copies.arrangement import Copy, arranged, at_once
from ...host_copies.calls import SYMBOL, HostCopy, host_copies
from ...ir.attribute_names import HOST_COPIES
from ...ir.attributes import i64
from ...ir.functions import graph_functions, kernel_op
from ...machines.measures import value
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class OverlapHostCopies(Pass):
    """Takes the kernel stage with its calls in an order; leaves the copies to the host and back of a memory budget in places where they run
    beside what computes, which keeps its order.

    A copy to the host begins when there is what it copies, and is waited for when it should be done, so that this has no memory from then on. A
    copy back is waited for right before its first reader, and begins as early as may be. No more bytes are live at the peak than if each were
    waited for at once: else the oldest copy to the host is, and copies back begin later. Times are of `machine` and `link`.
    `bascule.host_copies` on the graph function tells the `bytes`, the `seconds` of the copies and those `exposed`, in which nothing is
    computed, as simulated.
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
        steps, sizes, kept = steps_of(ops, end, table, in_order=False, symbols=(SYMBOL, *SYMBOLS))
        costs, own = CallCosts(self.machine, SYMBOL), {number for copy in found for number in (copy.begin, copy.wait)}
        times = [0.0 if number in own else costs.call(op, table)[0] for number, op in enumerate(ops)]
        copies = [self._copy(copy, ops, steps) for copy in found]
        live = live_bytes(steps, at_once(len(ops), copies), sizes, kept)
        # A kernel may write over what dies there: the peak is that at least, and no copy is under way where it may be more.
        written_over = [_is_kernel(op, table) for op in ops]
        least = max(max(before, after) if over else during for over, (before, during, after) in zip(written_over, live))
        told = arranged(times, [during for _, during, _ in live], copies, least)
        for number in told.order:
            ops[number].move_before(end)
        seconds = {"seconds": told.seconds, "exposed": told.exposed}
        numbers = {name: ir.FloatAttr.get_f64(number) for name, number in seconds.items()}
        graph.attributes[HOST_COPIES] = ir.DictAttr.get(numbers | {"bytes": i64(sum(copy.bytes for copy in found))})

    def _copy(self, copy: HostCopy, ops: Sequence[ir.Operation], steps: Sequence[Step]) -> Copy:
        rate = value(self.link, "to_host" if copy.leaves else "to_device")
        seconds = value(self.link, "latency") + copy.bytes / rate
        source = max(steps[copy.begin].after, default=-1)
        if copy.leaves:
            used = steps[copy.begin].uses
            readers = (n for n, step in enumerate(steps) if step.uses & used and n not in (copy.begin, copy.wait))
            return Copy(copy.begin, copy.wait, copy.bytes, seconds, True, source, 1 + max([source, *readers]))
        along, reader = list[int](), len(ops)
        for number in range(copy.wait + 1, len(ops)):
            if steps[number].after & {copy.wait, *along}:
                if ops[number].name == "func.call" or not steps[number].after <= {copy.wait, *along}:
                    reader = number
                    break
                along.append(number)
        return Copy(copy.begin, copy.wait, copy.bytes, seconds, False, source, reader, tuple(along))


def _is_kernel(op: ir.Operation, table: ir.SymbolTable) -> bool:
    return op.name == "func.call" and kernel_op(table[op.attributes["callee"].value].operation) is not None
