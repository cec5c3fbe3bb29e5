"""Into how many chunks a reduction is worth cutting, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.attributes import i64
from ..mlir import ir

CHUNKS = "bascule.chunks"  # on a compute of partial results: how the reduction was cut, `Chunks.attribute`
ROW_CHUNK = "bascule.row_chunk"  # on an op: which chunk of rows it is of, as `chunk-rows` has it; those of two are in no kernel together
FINEST = 4  # of the pieces wanted, at most so many times as many are taken to cut evenly


@dataclass(frozen=True)
class Chunks:
    """How the ranges of a reduction are cut: range `split` into `count` pieces of `size`, the ranges before it wholly among the chunks,
    those after it wholly in each. `count * size` may be more than the range has: the last piece is then short."""

    ranges: tuple[int, ...]
    split: int
    count: int
    size: int

    @property
    def outer(self) -> list[int]:
        """The domain of the chunks."""
        return [*self.ranges[: self.split], self.count]

    @property
    def inner(self) -> list[int]:
        """The ranges of one chunk."""
        return [self.size, *self.ranges[self.split + 1 :]]

    def attribute(self) -> ir.Attribute:
        """`{ranges, split, count, size}`."""
        numbers = {name: i64(getattr(self, name)) for name in ("split", "count", "size")}
        return ir.DictAttr.get({"ranges": ir.DenseI64ArrayAttr.get(list(self.ranges)), **numbers})

    @staticmethod
    def of(op: ir.Operation) -> "Chunks | None":
        """Reads `attribute` of a compute; None for a compute of whole results."""
        if CHUNKS not in op.attributes:
            return None
        known = op.attributes[CHUNKS]
        return Chunks(tuple(known["ranges"]), *(known[name].value for name in ("split", "count", "size")))

    @property
    def exact(self) -> bool:
        return self.count * self.size == self.ranges[self.split]


def cut(ranges: Sequence[int], pieces: int, *, fills: int) -> Chunks | None:
    """`ranges` cut into chunks of whole, row-major stretches: into at least `pieces` equal ones if there is such a cut near that, otherwise
    with a short last chunk of a range that is one of the first `fills`, or else into fewer. None if there are no two."""
    before = 1
    for number, size in enumerate(ranges):
        wanted = -(-pieces // before)
        if wanted <= 1:
            break
        if size >= wanted:
            count = next((c for c in range(wanted, min(size, FINEST * wanted) + 1) if size % c == 0), None)
            if count is not None:
                return Chunks(tuple(ranges), number, count, size // count)
            if number < fills:
                piece = size // wanted
                return Chunks(tuple(ranges), number, -(-size // piece), piece)
            count = next(c for c in range(wanted - 1, 0, -1) if size % c == 0)
            if count > 1:
                return Chunks(tuple(ranges), number, count, size // count)
            return Chunks(tuple(ranges), number - 1, ranges[number - 1], 1) if before > 1 else None
        before *= size
    return None
