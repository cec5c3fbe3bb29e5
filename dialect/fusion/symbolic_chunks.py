"""A reduction over ranges that are not known in chunks: as many as are wanted for the sizes that symbols are thought to have."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.shapes import Size, constant, expr
from ..mlir import ir

ALIGNED = 128  # elements that pieces of the last range, which memory mostly runs along, are multiples of: whole lines are read


@dataclass(frozen=True)
class SymbolicChunks:
    """Range k is cut into `counts[k]` pieces of as many elements, of which the last ones may be short or empty. Ranges with one piece are wholly
    in each chunk; those with as many as they have elements, a number, are wholly among the chunks. `multiple`: of elements, pieces of the last
    range are."""

    ranges: tuple[ir.AffineExpr, ...]
    counts: tuple[int, ...]
    multiple: int = 1

    @property
    def sizes(self) -> list[ir.AffineExpr]:
        """Elements of a piece of each range."""
        units = [*[1] * (len(self.ranges) - 1), self.multiple]
        return [size if n == 1 else _piece(size, n, unit) for size, n, unit in zip(self.ranges, self.counts, units)]

    @property
    def outer(self) -> list[int]:
        """The domain of the chunks."""
        return [count for count in self.counts if count > 1]

    @property
    def inner(self) -> list[Size]:
        """The ranges of one chunk."""
        return [piece for piece in self.sizes if constant(piece) != 1]

    @property
    def exact(self) -> bool:
        return not self.short

    @property
    def short(self) -> list[int]:
        """The numbers of the ranges whose last pieces may be short."""
        wholes = zip(self.ranges, self.counts, self.sizes)
        return [number for number, (size, count, piece) in enumerate(wholes) if expr(piece * count) != size]

    def places(self) -> list[ir.AffineExpr]:
        """The index of each range, of those of the chunks and then of one chunk's ranges."""
        outer, inner = iter(range(len(self.outer))), iter(range(len(self.outer), len(self.outer) + len(self.inner)))
        found = []
        for count, piece in zip(self.counts, self.sizes):
            place = expr(0)
            if count > 1:
                place = expr(ir.AffineExpr.get_dim(next(outer)) * piece)
            if constant(piece) != 1:
                place = expr(place + ir.AffineExpr.get_dim(next(inner)))
            found.append(place)
        return found


def _piece(size: ir.AffineExpr, count: int, unit: int) -> ir.AffineExpr:
    return expr(expr(ir.AffineExpr.get_ceil_div(size, expr(count * unit))) * unit)


def cut_unknown(ranges: Sequence[ir.AffineExpr], seen: Sequence[int], pieces: int) -> SymbolicChunks | None:
    """`ranges` in about `pieces` chunks where they are of the sizes `seen`, the first ranges first; None if there are no two."""
    counts, before = [1] * len(ranges), 1
    for number, (size, about) in enumerate(zip(ranges, seen)):
        wanted, known = -(-pieces // before), constant(size)
        if wanted <= 1:
            break
        counts[number] = max(1, min(wanted, about if known is None else known))
        before *= counts[number]
    long = constant(ranges[-1]) is None and seen[-1] >= counts[-1] * ALIGNED
    return SymbolicChunks(tuple(ranges), tuple(counts), ALIGNED if long else 1) if before > 1 else None
