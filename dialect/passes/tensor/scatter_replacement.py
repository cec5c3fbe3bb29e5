"""Replacement of scatters that add rows: finds them in a graph, builds what replaces each before it, and adds a remark to what was built."""

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.functions import graph_functions
from ...mlir import ir
from ...remarks.attribute import add_remark, place
from ...remarks.record import PASSED, Remark
from ..base import check_target


@dataclass(frozen=True)
class Replacement:
    """`how` ends the sentence that begins with the operator; `saved`: bytes that a GPU moves in the time by which it is faster than atomics;
    `build` makes the result, at the insertion point."""

    how: str
    saved: int
    build: Callable[[], ir.Value]


def replace_scatters(
    module: ir.Module,
    name: str,
    target: str,
    begin: Callable[[ir.Operation], Callable[[ir.Operation], Replacement | None]],
) -> None:
    """Replaces scatters of a module, for the pass `name` and a GPU: on a CPU points run in order, and nothing is atomic. `begin(graph)` gives
    what tells of each scatter of that graph, in order, what is to stand there, or None."""
    check_target(name, target)
    if target == "cpu":
        return
    with module.context:
        for graph in graph_functions(module):
            replacement_of = begin(graph)
            for op in [view.operation for view in graph.regions[0].blocks[0].operations]:
                replacement = replacement_of(op) if op.name == "bascule.scatter" else None
                if replacement is not None:
                    _replace(name, op, replacement)


def _replace(name: str, op: ir.Operation, replacement: Replacement) -> None:
    with ir.InsertionPoint(op), op.location:
        result = replacement.build()
    saved = replacement.saved
    reason = f"faster than atomics by about {saved / 1e6:.0f} MB of memory traffic" if saved > 0 else ""
    remark = Remark(name, PASSED, replacement.how, reason, place(op), cost=saved if saved > 0 else None)
    add_remark(result.owner, remark)
    op.results[0].replace_all_uses_with(result)
    op.erase()
