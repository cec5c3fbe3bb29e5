"""The pass `fold-views`: reads through views become reads of the source; views that stay are aliases."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier, compose
from ...analysis.memory.buffers import at, difference, is_alias, moved_by
from ...errors import UnsupportedError
from ...ir import builders
from ...ir.functions import STORAGES, graph_functions
from ...ir.locations import source_of
from ...ir.regions import end_of, ops_in
from ...ir.shapes import constant, expr, index_map, layout_of
from ...mlir import ir, tensor
from ..base import VALUES, Pass


@dataclass(frozen=True)
class FoldViews(Pass):
    """Takes the tensor stage; leaves no read of a `bascule.view`, and only views that alias their source.

    A `tensor.extract` of a view becomes one of the source, at the composed and simplified index. A view of a view becomes one view.
    What remains is used whole (by a call, a `copy_into`, a scatter, the return): where the source's layout after the map, counted
    from the view's first element, is the layout of the view's type, it is an alias and stays; otherwise it becomes a compute that
    copies, of the same type. A view is an alias where each view on the way to it is, too: one without elements has a place all the same, and
    maps with remainders by symbols may not show it once they are composed. Views that nothing uses are erased.
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
            if is_alias(source.type, map_, result.type, sizes, simplifier):
                if source == view.operands[0] and map_ == view.attributes["map"].value:
                    continue
                map_ = index_map(len(sizes), list(map_.results))
                replacement = builders.view(source, map_, sizes, result.type)
            elif (place := _at_its_place(view, source, simplifier)) is not None:
                replacement = builders.view(source, place, sizes, result.type)
            else:
                _check(graph, view, source)
                replacement = builders.compute(result.type, sizes, _copy(source, map_, indexing))
        result.replace_all_uses_with(replacement)
        view.erase()


def _check(graph: ir.Operation, view: ir.Operation, source: ir.Value) -> None:
    """Refuses to copy what the caller takes for a view of an argument: at the place that the result has in memory it looks for the view's."""
    arguments = [a for a in graph.regions[0].blocks[0].arguments if isinstance(a.type, ir.RankedTensorType)]
    if STORAGES not in graph.attributes or source not in arguments:
        return
    storages = list(graph.attributes[STORAGES])
    owner = storages[arguments.index(source)]
    returned = list(end_of(graph.regions[0].blocks[0]).operands)
    shared = {value for value, storage in zip(returned, storages[len(arguments) :]) if storage == owner}
    moved = sum(map(moved_by, _way(view, source)), expr(0))
    if view.results[0] in shared and constant(difference(moved, expr(0))) != 0:
        told = "a view of an input, whose place among the input's elements is not known, would be returned as a copy"
        raise UnsupportedError(told, location=source_of(view.location))


def _at_its_place(view: ir.Operation, source: ir.Value, simplifier: Simplifier) -> ir.AffineMap | None:
    """A map of `view` into `source`, where the composed maps do not show one, or drop the dimension that it was for: what each view on the way
    adds to the offset is in it. None where one of them is no alias."""
    moved = expr(0)
    for op in _way(view, source):
        sizes = list(op.attributes["shape"].value.results)
        told = op.operands[0].type, op.attributes["map"].value, op.results[0].type
        if all(constant(size) != 0 for size in sizes) and not is_alias(*told, sizes, simplifier):
            return None
        moved = moved + moved_by(op)
    layout, wanted = layout_of(source.type), layout_of(view.results[0].type)
    for k in range(layout.n_dims):
        along = [int(i == k) for i in range(layout.n_dims)]
        if difference(at(layout, along), at(layout, [0] * layout.n_dims)) == expr(1):
            return index_map(wanted.n_dims, [moved + wanted.results[0] if step else 0 for step in along])
    return None


def _way(view: ir.Operation, source: ir.Value) -> Iterator[ir.Operation]:
    """The views from `view` to `source`."""
    yield view
    while (value := view.operands[0]) != source:
        view = value.owner.operation
        yield view


def _copy(source: ir.Value, map_: ir.AffineMap, indexing: Indexing):
    """The body that reads `source` through `map_`."""
    return lambda indices: builders.read(source, builders.apply(map_, indices, indexing.symbols))
