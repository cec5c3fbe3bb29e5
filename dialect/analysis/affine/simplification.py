"""Simplifying index maps under the known ranges of their dimensions, with a cache."""

from collections.abc import Sequence

from ...ir.shapes import Size, expr
from ...mlir import ir
from .affine_forms import Atoms, Form, from_expr, to_expr

Extent = Size | None  # of a dimension: 0 <= d < extent; None where nothing is known


class Simplifier:
    """Simplifies maps and remembers them. One lives as long as one pass runs on one context."""

    def __init__(self) -> None:
        self._atoms = Atoms()
        self._known: dict[tuple, ir.AffineMap] = {}
        self._sizes: dict[ir.AffineExpr | int, Form] = {}

    def __call__(self, map_: ir.AffineMap, extents: Sequence[Extent]) -> ir.AffineMap:
        """`map_` with every result in simplest terms, given 0 <= d_i < extents[i]. The number of dims and symbols stays."""
        key = (map_, *extents)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._simplify(map_, extents)
        return found

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
