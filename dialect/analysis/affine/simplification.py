"""Simplifying index maps under the known ranges of their dimensions, with a cache."""

from collections.abc import Sequence

from ...ir.shapes import Size, expr, symbol_count
from ...mlir import ir
from .affine_forms import Atoms, Form, from_expr, to_expr
from .linear_forms import Form as LinearForm
from .linear_forms import linear

Extent = Size | None  # of a dimension: 0 <= d < extent; None where nothing is known
# An expression over some dims, and which: its dim k is the k-th of these.
Placed = tuple[ir.AffineExpr, tuple[int, ...]]


class Simplifier:
    """Simplifies maps and remembers them. One lives as long as one pass runs on one context."""

    def __init__(self) -> None:
        self._atoms = Atoms()
        self._known: dict[tuple, ir.AffineMap] = {}
        self._sizes: dict[ir.AffineExpr | int, Form] = {}
        self._composed: dict[tuple, list[Placed]] = {}
        self._linear: dict[ir.AffineExpr, LinearForm[int]] = {}

    def __call__(self, map_: ir.AffineMap, extents: Sequence[Extent]) -> ir.AffineMap:
        """`map_` with every result in simplest terms, given 0 <= d_i < extents[i]. The number of dims and symbols stays."""
        key = (map_, *extents)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._simplify(map_, extents)
        return found

    def composed(
        self, map_: ir.AffineMap, inner: Sequence[tuple[ir.AffineExpr, *tuple[int, ...]]], extents: Sequence[Extent]
    ) -> list[Placed]:
        """The results of `map_` at the expressions `inner`, each simplified, over those dims of `extents` that it names. An expression stands
        before the numbers of its dims. Regions of equal shape ask the same, of other values."""
        key = (map_, inner, extents)
        found = self._composed.get(key)
        if found is None:
            count, exprs = len(extents), []
            for expression, *places in inner:
                dims = [ir.AffineExpr.get_dim(place) for place in places]
                exprs.append(expression.compose(ir.AffineMap.get(count, 0, dims)) if dims else expression)
            whole = self(compose(map_, ir.AffineMap.get(count, symbol_count(exprs), exprs)), extents)
            found = self._composed[key] = [_compressed(result, count) for result in whole.results]
        return found

    def linear(self, e: ir.AffineExpr) -> LinearForm[int]:
        """`linear(e)`, which its caller leaves as it is."""
        form = self._linear.get(e)
        if form is None:
            form = self._linear[e] = linear(e)
        return form

    def equal(self, a: ir.AffineMap, b: ir.AffineMap, extents: Sequence[Extent]) -> bool:
        """Whether two maps are known to agree at every index within `extents`."""
        if list(a.results) == list(b.results):
            return True
        return list(self(a, extents).results) == list(self(b, extents).results)

    def _simplify(self, map_: ir.AffineMap, extents: Sequence[Extent]) -> ir.AffineMap:
        atoms = self._atoms
        atoms.assume(())
        sizes = [None if extent is None else self._size(extent) for extent in extents]
        atoms.assume(sizes)
        results = [to_expr(from_expr(result, atoms), atoms) for result in map_.results]
        return ir.AffineMap.get(map_.n_dims, map_.n_symbols, results)

    def _size(self, extent: Size) -> Form:
        form = self._sizes.get(extent)
        if form is None:
            form = self._sizes[extent] = from_expr(expr(extent), self._atoms)
        return form


def compose(outer: ir.AffineMap, inner: ir.AffineMap) -> ir.AffineMap:
    """`outer(inner(i))`; symbols of both are those of the function."""
    symbols = max(outer.n_symbols, inner.n_symbols)
    return ir.AffineMap.get(inner.n_dims, symbols, [result.compose(inner) for result in outer.results])


def _compressed(expression: ir.AffineExpr, count: int) -> Placed:
    """An expression over `count` dims as one over those that it names, in order of their numbers."""
    used: set[int] = set()
    todo = [expression]
    while todo:
        e = todo.pop()
        if isinstance(e, ir.AffineDimExpr):
            used.add(e.position)
        elif isinstance(e, ir.AffineBinaryExpr):
            todo += [e.lhs, e.rhs]
    if len(used) == count:
        return expression, tuple(range(count))
    order = sorted(used)
    place = {old: new for new, old in enumerate(order)}
    dims = [ir.AffineExpr.get_dim(place.get(i, 0)) for i in range(count)]
    return expression.compose(ir.AffineMap.get(len(order), 0, dims)).maybe_downcast(), tuple(order)
