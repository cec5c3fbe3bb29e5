"""The pass `chunk-rows`: a tensor of many rows that is too large is made, read and let go chunk by chunk."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.costs import tensor_bytes
from ...fusion.chunk_sizes import ROW_CHUNK
from ...fusion.chunked_rows import ChunkedRows
from ...fusion.row_chunks import NotChunked, RowChunks, RowPlan
from ...fusion.split_reduction import split
from ...ir.functions import CHUNK_ROWS, Externs, graph_functions
from ...mlir import ir
from ...remarks.attribute import place
from ...remarks.record import MISSED, PASSED, Remark
from ..base import VALUES, Pass
from ..graph_walk import GraphWalk
from .fold_views import fold_views
from .simplify_indexing import simplify_indexing

MADE = ("func.call", "bascule.compute")  # ops whose results are cut, if they are large


@dataclass(frozen=True)
class ChunkRows(Pass):
    """Takes and leaves the tensor stage, after `inline-producers`.

    Of graph functions with `bascule.chunk_rows`, a number of bytes, or of all, if `least` is not 0. The logits of a language model are rows
    of a vocabulary, made by a product, reduced a row at a time for the loss, and in the backward taken by two more products, one of which
    sums over rows. Such a tensor of that many bytes or more is cut along its rows into chunks of about `bytes`, from `fewest` to `most` of
    them: all that makes and reads it is done for one chunk before the next, so that it is never whole in memory, nor is what is computed
    from it of its size. What is summed over rows is added up chunk by chunk, in f32 at least. A tensor that is returned, or that something
    reads along no rows, stays whole, with a remark.
    """

    name: ClassVar[str] = "chunk-rows"
    takes: ClassVar[str] = VALUES
    least: int = 0
    bytes: int = 1 << 27
    fewest: int = 8
    most: int = 16

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                marked = graph.attributes[CHUNK_ROWS].value if CHUNK_ROWS in graph.attributes else 0
                if self.least or marked:
                    self._chunk(graph, self.least or marked, Externs(module))

    def _chunk(self, graph: ir.Operation, least: int, externs: Externs) -> None:
        told = set[ir.Value]()
        while (seed := _largest(graph, least, told)) is not None:
            count = min(self.most, max(self.fewest, -(-tensor_bytes(seed) // self.bytes)))
            try:
                found = _write(graph, seed, count, externs)
            except NotChunked as why:
                told.add(seed)
                op = seed.owner.operation
                GraphWalk.remark(op, Remark(self.name, MISSED, "not computed by chunks", str(why), place(op)))
                continue
            simplifier = Simplifier()
            fold_views(graph, simplifier)
            simplify_indexing(graph, simplifier)
            GraphWalk.remark(graph, found)


def _largest(graph: ir.Operation, least: int, without: set[ir.Value]) -> ir.Value | None:
    """The largest tensor of `least` bytes or more that an op of the graph makes, but for views."""
    walk = GraphWalk(graph)
    made = [value for op in walk.ops if op.name in MADE and ROW_CHUNK not in op.attributes for value in op.results]
    found = [value for value in made if tensor_bytes(value) >= least and value not in without]
    return max(found, key=tensor_bytes, default=None)


def _write(graph: ir.Operation, seed: ir.Value, count: int, externs: Externs) -> Remark:
    """Raises `NotChunked` where that cannot be."""
    where = place(seed.owner.operation)  # the op goes
    plan, found = _planned(graph, seed, count)
    if found.splits:
        for compute, loop, chunks in found.splits:
            split(compute, loop, chunks, Indexing(plan.indexing.symbols, Simplifier()))
        plan, found = _planned(graph, seed, count)
        if found.splits:
            raise NotChunked("what is summed over its rows is summed again")
    ChunkedRows(plan, found, externs).write()
    return Remark(
        ChunkRows.name, PASSED, f"computed in {found.count} chunks of rows", "it is never whole in memory", where
    )


def _planned(graph: ir.Operation, seed: ir.Value, count: int) -> tuple[RowPlan, RowChunks]:
    walk = GraphWalk(graph)
    plan = RowPlan(walk.ops, seed, count, walk.symbols)
    return plan, plan.made()
