"""The pass `segment-scatters`: rows that are added to rows chosen by data are sorted by those, and each row's own are summed."""

from dataclasses import dataclass
from typing import ClassVar

from ..analysis.row_scatters import ORDERED, RowScatter
from ..errors import UnsupportedError
from ..fusion.segment_sums import Orders, SegmentSums
from ..ir import builders
from ..ir.functions import REMARKS, Externs, graph_functions
from ..ir.locations import operators_of, source_of
from ..mlir import ir
from .base import VALUES, Pass, check_target


@dataclass(frozen=True)
class SegmentScatters(Pass):
    """Takes the tensor stage after `inline-producers`; leaves no scatter that adds rows where a sum of segments moves less memory.

    The gradient of an embedding adds each token's row to that of its word: with atomic additions, in f32, to a table that was set to zero
    before and is rounded afterwards. Here the tokens are sorted by their words (`aten.sort.stable`), and each row of the table is computed as
    the sum over its own tokens: it is written once, rounded, in no order that varies. Rows that several scatters of a graph choose alike are
    sorted once. `fusion/segment_sums.py` says how long sums are
    cut. So it is done where rows are whole (the inner dims of both), chosen by one index of dim 0, and where by the costs in
    `analysis/row_scatters.py` it saves `least` bytes of memory traffic or more; `always` does it wherever it can be. A scatter marked
    `bascule.ordered` is never left: `torch-to-bascule` marks those whose order matters, where deterministic algorithms are asked for.

    For a GPU only: on a CPU points run in order, and nothing is atomic.
    """

    name: ClassVar[str] = "segment-scatters"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    least: int = 1 << 26
    always: bool = False

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            externs: Externs | None = None
            for graph in graph_functions(module):
                orders: Orders = {}
                for op in [view.operation for view in graph.regions[0].blocks[0].operations]:
                    scatter = self._wanted(op) if op.name == "bascule.scatter" else None
                    if scatter is not None:
                        externs = externs or Externs(module)
                        _replace(scatter, externs, builders.symbols_of(graph), orders)

    def _wanted(self, op: ir.Operation) -> RowScatter | None:
        """The scatter `op`, if it is to be replaced."""
        ordered = ORDERED in op.attributes
        required = self.always or ordered
        scatter = RowScatter.of(op, 1) if required else RowScatter.of(op)
        if isinstance(scatter, str):
            if ordered:
                raise UnsupportedError(f"a sum of rows in a fixed order: {scatter}", location=source_of(op.location))
            return None
        return scatter if required or (scatter.saved >= self.least and not scatter.reduces) else None


def _replace(scatter: RowScatter, externs: Externs, symbols: list[ir.Value], orders: Orders) -> None:
    saved, op = scatter.saved, scatter.op
    name = next(reversed(operators_of(op.location)), "a scatter")
    result = SegmentSums(scatter, externs, symbols, orders).build()
    amount = f", about {saved / 1e6:.0f} MB less memory traffic than atomics" if saved > 0 else ""
    remark = ir.StringAttr.get(f"{name} as sums of segments of sorted rows{amount}")
    result.owner.attributes[REMARKS] = ir.ArrayAttr.get([remark])
    op.results[0].replace_all_uses_with(result)
    op.erase()
