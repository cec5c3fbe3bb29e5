"""The pass `collapse-domains`: rows that some computes walk by one index and others by two are walked by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import sizes_of
from ...analysis.bodies.collapsible_dims import (
    Fold,
    Pair,
    Walker,
    fold_sizes,
    sizes_to_ask_again,
    to_collapse,
    with_folds,
)
from ...analysis.memory.buffers import memref_type, strides
from ...fusion.row_statistics import is_apart
from ...ir import builders
from ...ir.functions import graph_functions
from ...ir.shapes import expr, index_map, size_map, tensor_type
from ...mlir import affine, ir
from ..base import EITHER, Pass
from .fold_views import fold_views
from .simplify_indexing import simplify_indexing


@dataclass(frozen=True)
class CollapseDomains(Pass):
    """Takes and leaves the tensor stage, after `fold-views` and `simplify-indexing`.

    A loss over `logits.view(-1, n)` reduces rows over a domain of 256, and the gradient of the logits is computed over 4x64: as
    they stand, they share no kernel. Where all that a compute makes of two neighbouring indices (i, j) is `i * 64 + j`, it may as well run
    over one of 256, and so may the computes that it shares tensors with. That is done where it brings together more bytes of tensors than it
    parts: some computes cannot be collapsed (a position's embedding is read at j alone). Reductions over two indices become ones over one;
    their elements stay in order. The result of a collapsed domain is collapsed too, and what else uses it sees it through a `bascule.view`.
    """

    name: ClassVar[str] = "collapse-domains"
    takes: ClassVar[str] = EITHER

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                collapsed, settled = False, set[Fold]()
                while _collapse(graph, settled):  # a fold of a fold, (2, 4, 8), shows when (2, 4) is one
                    collapsed = True
                if collapsed:
                    fold_views(graph, simplifier := Simplifier())
                    simplify_indexing(graph, simplifier)


def _collapse(graph: ir.Operation, settled: set[Fold]) -> bool:
    """Collapses what can be, of all folds that do not meet; whether there was any, and more may be. `settled`: the sizes of folds of which
    that was decided before; those of now are added, but of folds of which what is collapsed may decide otherwise."""
    indexing = Indexing(builders.symbols_of(graph), Simplifier())
    ops = [view.operation for view in graph.regions[0].blocks[0].operations]
    bodies = [Body(op) for op in ops if op.name == "bascule.compute" and is_apart(op)]
    sizes = fold_sizes(bodies)
    if sizes <= settled:
        return False
    walkers = [Walker(body, indexing) for body in with_folds(bodies, sizes)]
    found = to_collapse(walkers, {w.body.result for w in walkers if _may_move(w.body)})
    settled |= sizes
    done: set[Walker] = set()
    for fold, chosen in found.items():
        for walker, pairs in chosen:
            if walker not in done:
                done.add(walker)
                settled -= sizes_to_ask_again(walker.body, fold, sizes)
                _rewrite(walker, pairs, fold)
    return bool(done)


def _may_move(body: Body) -> bool:
    """Whether the result may be a tensor of another shape: it is not made in the memory of an argument."""
    return all(use.owner.operation.name != "bascule.copy_into" for use in body.result.uses)


def _rewrite(walker: Walker, pairs: Sequence[Pair], fold: Fold) -> None:
    """Makes one index of each pair, the inner ones of a loop first: numbers of indices before stay."""
    op = walker.body.op
    shape = sizes_of(op)
    places = sorted(((walker.loops[outer], (outer, inner)) for outer, inner in pairs), key=lambda place: -place[0][1])
    inner = [number for (loop, number), _ in places if loop == op]
    for (loop, number), pair in places:
        _merge(loop, number, pair, fold)
    if inner:
        _retype(op, inner, shape, fold)


def _merge(loop: ir.Operation, number: int, pair: Pair, fold: Fold) -> None:
    """Indices `number` and the one after it of a loop become one. The result's type stays, for now."""
    outer, inner = pair
    size, d0 = fold[1], ir.AffineExpr.get_dim(0)
    block = loop.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), loop.location:
        first, second = (
            affine.apply(index_map(1, [e]), [outer])
            for e in (ir.AffineExpr.get_floor_div(d0, size), ir.AffineExpr.get_mod(d0, size))
        )
    outer.replace_all_uses_except(first, [first.owner.operation, second.owner.operation])
    inner.replace_all_uses_with(second)
    block.erase_argument(number + 1)
    sizes = sizes_of(loop)
    sizes[number : number + 2] = [expr(fold[0] * fold[1])]
    loop.attributes["ranges"] = ir.AffineMapAttr.get(size_map(sizes))


def _retype(op: ir.Operation, numbers: Sequence[int], shape: Sequence[ir.AffineExpr], fold: Fold) -> None:
    """A compute of the collapsed result in place of `op`, and a view of it, of the sizes `shape`, in place of its result. `numbers`: the outer
    dims of the pairs."""
    result, size, dim = op.results[0], fold[1], ir.AffineExpr.get_dim
    kept = [d for d in range(len(shape)) if d - 1 not in numbers]
    indices = [dim(d) * size + dim(d + 1) if d in numbers else dim(d) for d in kept]
    steps = strides(memref_type(result.type))
    steps = [steps[d + 1] if d in numbers else steps[d] for d in kept]
    attributes = {name: op.attributes[name] for name in op.attributes}
    with ir.InsertionPoint(op), op.location:
        type_ = tensor_type(sizes_of(op), result.type.element_type, steps)
        new = ir.Operation.create(op.name, results=[type_], attributes=attributes, regions=1)
        op.regions[0].blocks[0].append_to(new.regions[0])
        seen = builders.view(new.results[0], index_map(len(shape), indices), shape, result.type)
    result.replace_all_uses_with(seen)
    op.erase()
