"""The pass `split-domains`: rows that a reduction walks by two indices, and what is computed from it by one, are walked by two."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import sizes_of
from ...analysis.bodies.splittable_dims import Quotients, Split
from ...analysis.memory.buffers import memref_type, strides
from ...fusion.row_statistics import is_apart
from ...ir import builders
from ...ir.functions import graph_functions
from ...ir.shapes import constant, expr, index_map, size_map, tensor_type
from ...mlir import affine, ir
from ..base import VALUES, Pass
from .fold_views import fold_views
from .simplify_indexing import simplify_indexing


@dataclass(frozen=True)
class SplitDomains(Pass):
    """Takes and leaves the tensor stage, after `fold-views` and `simplify-indexing`.

    The statistics of a group norm are over (16, 32), each of 10 channels; what is normalized is over (16, 320, ...), and reads them at
    `c floordiv 10`: as they stand, they share no kernel. A pointwise compute that reads at a quotient of an index what was reduced over
    just those rows of a large tensor, which it reads too, runs over the quotient and the remainder instead, where nothing of its own, nor
    of what reads its result, needs them together. Its result has one dim more, and what else uses it sees it through a `bascule.view`.
    Left alone are tensors of less than `min-shared` bytes, and rows that are runs of less than `min-run` bytes in memory, such as the groups
    of a channels-last tensor.
    """

    name: ClassVar[str] = "split-domains"
    takes: ClassVar[str] = VALUES
    min_shared: int = 1 << 16
    min_run: int = 128

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                while _split(self, graph):  # what reads a result that was split may have to be split too
                    fold_views(graph, simplifier := Simplifier())
                    simplify_indexing(graph, simplifier)


def _split(options: SplitDomains, graph: ir.Operation) -> bool:
    """Splits the domains of what can be, one index each; whether there was any."""
    indexing = Indexing(builders.symbols_of(graph), Simplifier())
    ops = [view.operation for view in graph.regions[0].blocks[0].operations]
    bodies = [Body(op) for op in ops if op.name == "bascule.compute" and is_apart(op)]
    quotients = Quotients({body.result: body for body in bodies}, indexing, options.min_shared, options.min_run)
    found = [(body.op, split) for body in bodies if (split := quotients.split_of(body))]
    for op, split in found:
        _rewrite(op, split)
    return bool(found)


def _rewrite(op: ir.Operation, split: Split) -> None:
    """A compute over both indices in place of `op`, and a view of it in place of its result."""
    result, dim = op.results[0], ir.AffineExpr.get_dim
    shape, at, size = sizes_of(op), split.dim, split.size
    rank = len(shape)
    whole = constant(shape[at])
    assert whole is not None
    sizes = [*shape[:at], expr(whole // size), expr(size), *shape[at + 1 :]]
    steps = strides(memref_type(result.type))
    steps = [*steps[:at], expr(steps[at] * size), *steps[at:]]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["ranges"] = ir.AffineMapAttr.get(size_map(sizes))
    block = op.regions[0].blocks[0]
    block.add_argument(ir.IndexType.get(), op.location)
    for place in range(rank, at + 1, -1):
        block.arguments[place - 1].replace_all_uses_with(block.arguments[place])
    with ir.InsertionPoint.at_block_begin(block), op.location:
        outer, inner = block.arguments[at], block.arguments[at + 1]
        together = affine.apply(index_map(2, [dim(0) * size + dim(1)]), [outer, inner])
    outer.replace_all_uses_except(together, [together.owner.operation])
    with ir.InsertionPoint(op), op.location:
        type_ = tensor_type(sizes, result.type.element_type, steps)
        new = ir.Operation.create(op.name, results=[type_], attributes=attributes, regions=1)
        block.append_to(new.regions[0])
        quotient, rest = ir.AffineExpr.get_floor_div(dim(at), size), ir.AffineExpr.get_mod(dim(at), size)
        indices = [*(dim(k) for k in range(at)), quotient, rest, *(dim(k) for k in range(at + 1, rank))]
        seen = builders.view(new.results[0], index_map(rank, indices), shape, result.type)
    result.replace_all_uses_with(seen)
    op.erase()
