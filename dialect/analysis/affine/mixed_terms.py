"""Affine expressions that MLIR may simplify, and those that it may not.

MLIR keys the products, quotients and remainders of a sum, where the second operand is a symbol, by their operands alone, and takes one for the
other: `d0 floordiv s0 + d0 mod s0 - d1` becomes `(d0 floordiv s0) * 2 - d1`. Seen in builds up to 2026-10.

Beside a product of dims and symbols it orders two quotients of one dim by constants one way, and then the other way:
`(d0 floordiv 4) * 6 + (d1 * s0) * 2 + d0 mod 2 + d2 * 2` has another form after each simplification, and a pass that simplifies until nothing
changes never ends.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from ...mlir import ir

Tree = tuple  # (class, lhs, rhs); a leaf is of one or two parts, a constant of one
_DIVISIONS = (ir.AffineModExpr, ir.AffineFloorDivExpr, ir.AffineCeilDivExpr)


def simplified(e: ir.AffineExpr, dims: int, symbols: int) -> ir.AffineExpr:
    """`e` as MLIR simplifies it, or as it is where that may be another number."""
    if mixes(tree(e)):
        return e.maybe_downcast()
    return ir.AffineExpr.simplify_affine_expr(e, dims, symbols).maybe_downcast()


def tree(e: ir.AffineExpr, dims: Sequence[Tree] = (), symbols: Sequence[Tree] = ()) -> Tree:
    """`e` with `dims` and `symbols` in the place of its own, where they are given."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        return dims[e.position] if dims else ("d", e.position)
    if isinstance(e, ir.AffineSymbolExpr):
        return symbols[e.position] if symbols else ("s", e.position)
    if isinstance(e, ir.AffineConstantExpr):
        return (e.value,)
    return (type(e), tree(e.lhs, dims, symbols), tree(e.rhs, dims, symbols))


def divides(whole: Tree) -> bool:
    """Whether a quotient or a remainder by what is no constant stands in `whole`."""
    return any(term[0] in _DIVISIONS for term in _terms(whole))


def mixes(whole: Tree) -> bool:
    """Whether a quotient or a remainder by what is no constant stands in `whole` beside another term, not a sum, of that second operand which
    has a dim or symbol in common with it."""
    terms = set(_terms(whole))
    divisions = [term for term in terms if term[0] in _DIVISIONS]
    return any(
        term != division and division[2] in term[1:] and not _leaves(division[1]).isdisjoint(_leaves(term))
        for division in divisions
        for term in terms
    )


def multiplies(whole: Tree) -> bool:
    """Whether a product of what is no constant stands in `whole`."""
    return any(term[0] is ir.AffineMulExpr for term in _terms(whole))


def swings(whole: Tree) -> bool:
    """Whether quotients or remainders by constants, two that have a dim or symbol in common, stand in `whole` beside a product of what is no
    constant: MLIR may never be done with it."""
    if not multiplies(whole):
        return False
    divisions = [
        (term, _leaves(term)) for term in set(_parts(whole)) if term[0] in _DIVISIONS and _is_constant(term[2])
    ]
    return any(not one[1].isdisjoint(other[1]) for one, other in combinations(divisions, 2))


def _parts(whole: Tree) -> Iterator[Tree]:
    """All in a tree that is no leaf."""
    if len(whole) == 3:
        yield whole
        for part in whole[1:]:
            yield from _parts(part)


def _is_constant(part: Tree) -> bool:
    return len(part) == 1


def _terms(whole: Tree) -> Iterator[Tree]:
    """The products, quotients and remainders in a tree, but for those with a constant."""
    if len(whole) == 3:
        if whole[0] is not ir.AffineAddExpr and not any(_is_constant(side) for side in whole[1:]):
            yield whole
        for part in whole[1:]:
            yield from _terms(part)


def _leaves(part: Tree) -> set[Tree]:
    if len(part) == 3:
        return _leaves(part[1]) | _leaves(part[2])
    return set() if _is_constant(part) else {part}
