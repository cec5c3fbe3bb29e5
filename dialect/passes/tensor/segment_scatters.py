"""The pass `segment-scatters`: rows that are added to rows chosen by data are sorted by those, and each row's own are summed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from ...errors import UnsupportedError, UserError
from ...ir import builders
from ...ir.functions import Externs
from ...ir.locations import source_of
from ...mlir import ir
from ...scatters.row_scatters import MERGED, ORDERED, RowScatter
from ...scatters.segment_sums import Orders, SegmentSums
from ..base import VALUES, Pass
from .scatter_replacement import Replacement, replace_scatters


@dataclass(frozen=True)
class SegmentScatters(Pass):
    """Takes the tensor stage after `inline-producers`; leaves no scatter that adds rows where a sum of segments moves less memory.

    The gradient of an embedding adds each token's row to that of its word: with atomic additions, in f32, to a table that was set to zero
    before and is rounded afterwards. Here the tokens are ordered by their words, and each row of the table is computed as the sum over its own
    tokens: it is written once, rounded, in no order that varies. Rows that several scatters of a graph choose alike are ordered once: up to
    `merged` of them by kernels, which order tiles of `tile` and merge those, more by `aten.sort.stable` (`dialect/scatters/row_sort.py`).
    `dialect/scatters/segment_sums.py` says how long sums are cut. So it is done where rows are whole (the inner dims of both), chosen by
    one index of dim 0, and where by the costs in `dialect/scatters/row_scatters.py` it saves `least` bytes of memory traffic or more;
    `always` does it wherever it can be. A scatter marked `bascule.ordered` is never left: `torch-to-bascule` marks those whose order
    matters, where deterministic algorithms are asked for.

    For a GPU only: on a CPU points run in order, and nothing is atomic.
    """

    name: ClassVar[str] = "segment-scatters"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    least: int = 1 << 26
    always: bool = False
    merged: int = MERGED
    tile: int = 1024

    def run(self, module: ir.Module) -> None:
        if self.tile < 1 or self.tile & (self.tile - 1):
            raise UserError("'tile' is a power of two", location=self.name)
        externs = cache(lambda: Externs(module))

        def begin(graph: ir.Operation) -> Callable[[ir.Operation], Replacement | None]:
            orders, symbols = Orders(), builders.symbols_of(graph)

            def replacement(op: ir.Operation) -> Replacement | None:
                scatter = self._wanted(op)
                if scatter is None:
                    return None
                sums = SegmentSums(scatter, externs(), symbols, orders, self.merged, self.tile)
                return Replacement("as sums of segments of sorted rows", scatter.saved, sums.build)

            return replacement

        replace_scatters(module, self.name, self.target, begin)

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
