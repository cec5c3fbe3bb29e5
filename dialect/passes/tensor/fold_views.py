"""The pass `fold-views`: reads through views become reads of the source; views that stay are aliases."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier, compose
from ...analysis.memory.buffers import from_first
from ...ir import builders
from ...ir.functions import graph_functions
from ...ir.regions import ops_in
from ...ir.shapes import index_map, layout_of
from ...mlir import ir, tensor
from ..base import VALUES, Pass


@dataclass(frozen=True)
class FoldViews(Pass):
    """Takes the tensor stage; leaves no read of a `bascule.view`, and only views that alias their source.

    A `tensor.extract` of a view becomes one of the source, at the composed and simplified index. A view of a view becomes one view.
    What remains is used whole (by a call, a `copy_into`, a scatter, the return): where the source's layout after the map, counted
    from the view's first element, is the layout of the view's type, it is an alias and stays; otherwise it becomes a compute that
    copies, of the same type. Views that nothing uses are erased.
    """

    name: ClassVar[str] = "fold-views"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            simplifier = Simplifier()
            for graph in graph_functions(module):
                fold_views(graph, simplifier)


def fold_views(graph: ir.Operation, simplifier: Simplifier) -> None:
    """Folds the views of one graph function."""
    # Of each view: the source that is no view, and the map to it.
    roots: dict[ir.Value, tuple[ir.Value, ir.AffineMap]] = {}
    views: list[ir.Operation] = []
    reads: list[ir.Operation] = []
    indexing = Indexing(builders.symbols_of(graph), simplifier)

    for op in ops_in(graph):
        if op.name == "tensor.extract":
            if op.operands[0] in roots:
                reads.append(op)
        elif op.name == "bascule.view":
            source, map_ = op.operands[0], op.attributes["map"].value
            if source in roots:
                source, outer = roots[source]
                map_ = compose(outer, map_)
            sizes = list(op.attributes["shape"].value.results)
            roots[op.results[0]] = source, simplifier(map_, sizes)
            views.append(op)
        elif "ranges" in op.attributes:
            indexing.enter(op)
    for read in reads:
        view, *indices = read.operands
        source, map_ = roots[view]
        with ir.InsertionPoint(read), read.location:
            composed = [indexing.build(index) for index in indexing.at(map_, indices)]
            read.results[0].replace_all_uses_with(tensor.extract(source, composed))
    for read in reads:
        read.erase()
    for view in reversed(views):  # a view's users come after it
        result = view.results[0]
        if not any(True for _ in result.uses):
            view.erase()
            continue
        source, map_ = roots[result]
        sizes = list(view.attributes["shape"].value.results)
        with ir.InsertionPoint(view), view.location:
            seen = from_first(compose(layout_of(source.type), map_))
            if simplifier.equal(seen, layout_of(result.type), sizes):
                if source == view.operands[0] and map_ == view.attributes["map"].value:
                    continue
                map_ = index_map(len(sizes), list(map_.results))
                replacement = builders.view(source, map_, sizes, result.type)
            else:
                replacement = builders.compute(result.type, sizes, _copy(source, map_, indexing))
        result.replace_all_uses_with(replacement)
        view.erase()


def _copy(source: ir.Value, map_: ir.AffineMap, indexing: Indexing):
    """The body that reads `source` through `map_`."""
    return lambda indices: builders.read(source, builders.apply(map_, indices, indexing.symbols))
