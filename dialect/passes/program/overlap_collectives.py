"""The pass `overlap-collectives`: collectives begin early and are waited for late, so that they run beside what computes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...analysis.memory.call_order import peak
from ...analysis.memory.call_steps import steps_of
from ...collectives.calls import Collectives, collectives_of
from ...collectives.costs import Costs
from ...collectives.dependences import chained
from ...collectives.overlap import overlapped
from ...collectives.simulation import LEAST, Prediction, Times, predict
from ...ir.attribute_names import OVERLAP
from ...ir.functions import graph_functions
from ...mlir import ir
from ...remarks.attribute import add_remark, place
from ...remarks.record import MISSED, Remark
from ..base import VALUES, Pass

# Tried one after the other, until one needs little enough memory: how many times its time a collective is given, and whether calls pass waits.
# The most, since a collective gets processors only as a kernel that has them leaves some: on two H100s (2026-11-26, `benchmarks.ranks`, Llama
# under fsdp_graph) gathers of 60 us began 170 us after products of 260 us that were launched with them, and took 95.
WAYS = ((8.0, True), (4.0, True), (2.0, True), (1.25, True), (1.25, False), (1.0, False))


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """Takes the kernel stage with its calls in the order of memory; leaves it in one in which collectives run beside what computes.

    A gather begins just in time for its first reader, any other collective when there is what it sends, a wait comes when its collective should
    be done, and what does not need it goes before. The collectives keep the order that all ranks share. Times are of `machine` and
    `links`, or of `bandwidth` bytes/s. At the peak `growth` percent more bytes may be live than before, else less is overlapped; where
    that does not help, or the step as simulated would not be shorter, the order stays. `bascule.overlap` on the graph function tells
    the seconds predicted: of a step, of its computing, communication and the exposed part of that, and those before.
    """

    name: ClassVar[str] = "overlap-collectives"
    takes: ClassVar[str] = VALUES
    machine: str = "h200"
    links: str = "nvlink"
    bandwidth: float = 0.0
    growth: int = 25

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            costs = None
            for graph in graph_functions(module):
                *ops, end = [op.operation for op in graph.regions[0].blocks[0].operations]
                found = collectives_of(ops, table)
                if found.starts:
                    costs = costs or Costs(self.machine, self.links, self.bandwidth)
                    times = _times(ops, table, found, costs)
                    steps, sizes, kept = steps_of(ops, end, table, in_order=False)
                    chained(steps, found)
                    before = predict(range(len(ops)), found, times)
                    least = peak(steps, range(len(ops)), sizes, kept)
                    after, order = before, None
                    for slack, pull in WAYS:
                        order = overlapped(steps, found, times, slack, pull)
                        after = predict(order, found, times)
                        if 100 * peak(steps, order, sizes, kept) <= (100 + self.growth) * least:
                            break
                    else:
                        order = None
                        reason = f"with {self.growth} % more memory none can"
                        about = replace(place(graph), operator="collectives")
                        add_remark(graph, Remark(self.name, MISSED, "do not overlap", reason, about))
                    if order is not None and after.step <= before.step + LEAST:
                        for number in order:
                            ops[number].move_before(end)
                    else:
                        after = before
                    graph.attributes[OVERLAP] = _told(before, after)


def _times(ops: Sequence[ir.Operation], table: ir.SymbolTable, found: Collectives, costs: Costs) -> Times:
    others = [n not in found.starts and n not in found.waits for n in range(len(ops))]
    calls = [costs.call(op, table) if other else (0.0, None) for op, other in zip(ops, others)]
    alone = {number: costs.collective(start) for number, start in found.starts.items()}
    filling = {number: each for number, (_, each) in enumerate(calls) if each is not None}
    return costs.times([seconds for seconds, _ in calls], alone, filling)


def _told(before: Prediction, after: Prediction) -> ir.Attribute:
    told = {
        "step": after.step,
        "compute": after.compute,
        "communication": after.communication,
        "exposed": after.exposed,
    }
    told |= {"step_before": before.step, "exposed_before": before.exposed}
    return ir.DictAttr.get({name: ir.FloatAttr.get_f64(seconds) for name, seconds in told.items()})
