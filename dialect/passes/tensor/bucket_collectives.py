"""The pass `bucket-collectives`: small collectives of one kind become one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...collectives.buckets import Bucket, buckets_of
from ...collectives.calls import COALESCED, Collectives
from ...collectives.dependences import Dependences, reordered, sequence_of
from ...ir import OperandAttr
from ...ir.attributes import i64
from ...ir.functions import ARGUMENTS, Externs, graph_functions
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class BucketCollectives(Pass):
    """Takes and leaves the tensor stage. All-reduces, all-gathers and reduce-scatters of one group and dtype, of static sizes, become one call
    of the operator that takes several at once, up to `bytes` together: each call costs a latency, whatever it sends. No copy is made.

    All ranks have to decide alike, though their batches differ: the pass runs before anything that depends on costs, and looks only at the
    order of the collectives, their kinds, groups, dtypes and static sizes, and which needs the result of which. What is put together begins
    where the first stands, or, where a tensor is not there yet, where the last does, if no collective between needs the others. Nothing moves
    past other calls with effects. What has no wait in the graph, and what is larger than `bytes`, stays as it is.
    """

    name: ClassVar[str] = "bucket-collectives"
    takes: ClassVar[str] = VALUES
    bytes: int = 50 << 20

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._bucket(graph, table, module)

    def _bucket(self, graph: ir.Operation, table: ir.SymbolTable, module: ir.Module) -> None:
        known = Dependences.of(graph, table)
        if known is None:
            return
        ops, found, steps = known.ops, known.found, known.steps
        buckets = buckets_of([found.starts.get(number) for number in sequence_of(found)], known.needs, self.bytes)
        if not buckets:
            return
        for bucket in buckets:  # nobody waits before all have begun
            for wait in [wait for start in bucket.starts for wait in start.waits]:
                steps[wait].after.add(bucket.starts[-1].number)
        order = reordered(steps, *_places(found, buckets))
        assert order is not None  # buckets need nothing of what comes after them
        known.move(order)
        externs = Externs(module)
        for bucket in buckets:
            _coalesce([ops[start.number] for start in bucket.starts], bucket, externs)


def _places(found: Collectives, buckets: Sequence[Bucket]) -> tuple[list[int], dict[int, float]]:
    """The sequence with the starts of each bucket side by side, and where those that move belong."""
    places: dict[int, float] = {number: float(number) for number in sequence_of(found)}
    moved: dict[int, float] = {}
    for bucket in buckets:
        for start in bucket.starts:
            places[start.number] = moved[start.number] = float(bucket.place)
    return sorted(places, key=lambda number: (places[number], number)), moved


def _coalesce(calls: Sequence[ir.Operation], bucket: Bucket, externs: Externs) -> None:
    """Replaces `calls`, whose operands all stand before the last of them."""
    function = externs.table[calls[0].attributes["callee"].value].operation
    kind = bucket.starts[0].kind
    operands = list(dict.fromkeys(call.operands[0] for call in calls))
    parts = [OperandAttr.get(i64(operands.index(call.operands[0]))) for call in calls]
    arguments = [ir.ArrayAttr.get(parts), *list(function.attributes[ARGUMENTS])[1:]]
    reason = f"{len(calls)} collectives done as one"
    types = [call.results[0].type for call in calls]
    with ir.InsertionPoint(calls[-1]), calls[-1].location:
        results = externs.call(
            COALESCED[kind],
            arguments,
            operands,
            types,
            reason=reason,
            effects=True,
            begins=True,
            ranks=bucket.starts[0].ranks,
        )
    for call, result in zip(calls, results):
        call.results[0].replace_all_uses_with(result)
        call.erase()
