"""Index maps of views: how an element's index in the result gives its index in the source, as affine expressions.

Dimensions are `d0, d1, ...`; sizes are integers or expressions of the function's symbols, handled alike.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from bascule.dialect.analysis.affine.mixed_terms import simplified as mlir_simplified
from bascule.dialect.ir.shapes import Size, constant, expr, index_map, row_major, symbol_count
from bascule.dialect.mlir import ir

Expr: TypeAlias = ir.AffineExpr
Polynomial = dict[tuple[Expr, ...], int]  # product of atoms -> coefficient


def dim(number: int) -> Expr:
    return Expr.get_dim(number)


def dims(rank: int) -> list[Expr]:
    """`[d0, ..., d(rank-1)]`: the index itself."""
    return [Expr.get_dim(i) for i in range(rank)]


def simplified(e: Expr, rank: int) -> Expr:
    return mlir_simplified(e, rank, symbol_count([e]))


def linearize(index: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    """The row-major position of `index` in a tensor of `sizes`."""
    total = expr(0)
    for i, stride in zip(index, row_major(sizes)):
        total = total + i * stride
    return total


def delinearize(position: Expr, sizes: Sequence[Size], rank: int) -> list[Expr]:
    """The index in `sizes` of a row-major `position` that is inside; `rank` is the number of dimensions `position` names."""
    index = []
    for size in reversed(sizes[1:]):
        index.append(simplified(Expr.get_mod(position, expr(size)), rank))
        position = simplified(Expr.get_floor_div(position, expr(size)), rank)
    return [position, *reversed(index)][: len(sizes)]


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for x, m in a.items():
        for y, n in b.items():
            key = tuple(sorted((*x, *y), key=hash))
            product[key] = product.get(key, 0) + m * n
    return product


def polynomial(e: ir.AffineExpr) -> Polynomial:
    """`e` multiplied out, so that equal sizes compare equal however they are written. Atoms are symbols, quotients and remainders."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineConstantExpr):
        return {(): e.value}
    if isinstance(e, ir.AffineMulExpr):
        return _times(polynomial(e.lhs), polynomial(e.rhs))
    if isinstance(e, ir.AffineAddExpr):
        total = polynomial(e.lhs)
        for key, value in polynomial(e.rhs).items():
            total[key] = total.get(key, 0) + value
        return {key: value for key, value in total.items() if value}
    return {(e,): 1}


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for all values of the symbols."""
    a, b = expr(a), expr(b)
    return a == b or polynomial(a) == polynomial(b)


def element_count(sizes: Sequence[Size]) -> Expr:
    return reduce(lambda a, b: a * b, (expr(size) for size in sizes), expr(1))


def _running_products(sizes: Sequence[Expr]) -> list[int | frozenset]:
    """For each leading part of `sizes` its element count, as a key that equal counts share."""
    factor, products = 1, []
    symbolic: Polynomial = {(): 1}
    for size in sizes:
        number = constant(size)
        if number is not None:
            factor *= number
        else:
            symbolic = _times(symbolic, polynomial(size))
        plain = symbolic.keys() == {()}
        products.append(factor if plain else frozenset((key, n * factor) for key, n in symbolic.items()))
    return products


def reshape_groups(source: Sequence[Expr], result: Sequence[Expr]) -> list[tuple[range, range]]:
    """The finest cut of a reshape into independent ones: ranges of dimensions of equal element count, in order.

    Sizes are not 1 and not 0. A group of one source dimension is a split, one of a single result dimension a merge.
    """
    ends = {product: i + 1 for i, product in enumerate(_running_products(source))}
    groups, first, begin = [], 0, 0
    for i, product in enumerate(_running_products(result)):
        end = len(source) if i + 1 == len(result) else ends.get(product)
        if end is not None:
            groups.append((range(first, end), range(begin, i + 1)))
            first, begin = end, i + 1
    return groups


def reshape_map(source: Sequence[Size], result: Sequence[Size]) -> ir.AffineMap:
    """The index in a tensor of `source` sizes of the element that a reshape puts at an index of `result` sizes.

    Dimensions of size 1 come and go freely; a dimension or a split or merge of dimensions costs a quotient and a remainder only where
    one dimension of the result crosses several of the source.
    """
    source, result, rank = [expr(s) for s in source], [expr(s) for s in result], len(result)
    index, one, zero = [expr(0)] * len(source), expr(1), expr(0)
    if zero in source:
        # There is no element. Along an empty dimension the index is one of an empty dimension, so that no reader takes it for a constant, which
        # could be read before the loop that reads nothing.
        nowhere = dim(result.index(zero)) if zero in result else zero
        index = [nowhere if size == zero else zero for size in source]
    else:
        kept = [i for i, s in enumerate(source) if s != one]
        shown = [i for i, s in enumerate(result) if s != one]
        for group, parts in reshape_groups([source[i] for i in kept], [result[i] for i in shown]):
            if len(group) == len(parts) == 1:
                index[kept[group[0]]] = dim(shown[parts[0]])
                continue
            numbers = [shown[i] for i in parts]
            position = linearize([dim(i) for i in numbers], [result[i] for i in numbers])
            places = [kept[i] for i in group]
            for place, e in zip(places, delinearize(position, [source[i] for i in places], rank)):
                index[place] = e
    return index_map(rank, index)
