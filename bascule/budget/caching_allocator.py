"""PyTorch's caching allocator as a model: the segments that it takes of a device for blocks that are asked for and freed in an order.

What is free may be in pieces that a larger block does not fit into: so it holds more than is ever live. Sizes and rules are those of
c10/cuda/CUDACachingAllocator.cpp with its default settings, PyTorch 2.11 to 2.14.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

UNIT = 512  # bytes, of which blocks are multiples
SMALL = 1 << 20  # bytes: blocks of no more have segments of their own
SMALL_SEGMENT = 2 << 20
MEDIUM = 10 << 20  # bytes: smaller blocks share segments
MEDIUM_SEGMENT = 20 << 20
SEGMENT_UNIT = 2 << 20  # bytes, of which larger segments are multiples


@dataclass(eq=False)
class Block:
    """A piece of a segment, with its neighbours."""

    size: int
    address: int
    small: bool
    before: "Block | None" = None
    after: "Block | None" = None
    is_free: bool = False


class Pool:
    """PyTorch's caching allocator, of one stream. `held`: bytes of its segments."""

    def __init__(self) -> None:
        self.held = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}

    def allocate(self, size: int) -> Block:
        """The smallest free block of `size` bytes or more, without what is worth to be left."""
        size = max(UNIT, _up(size, UNIT))
        small = size <= SMALL
        free = self._free[small]
        index = bisect_left(free, size, key=lambda each: each[0])
        block = free.pop(index)[2] if index < len(free) else self._segment(size, small)
        block.is_free = False
        rest = block.size - size
        if rest >= UNIT if small else rest > SMALL:
            left = Block(rest, block.address + size, small, block, block.after)
            if block.after is not None:
                block.after.before = left
            block.size, block.after = size, left
            self._put(left)
        return block

    def free(self, block: Block) -> None:
        """Gives a block back, as one with free neighbours."""
        for other in (block.before, block.after):
            if other is not None and other.is_free:
                self._free[other.small].remove((other.size, other.address, other))
        if block.before is not None and block.before.is_free:
            block.address, block.size = block.before.address, block.size + block.before.size
            block.before = block.before.before
            if block.before is not None:
                block.before.after = block
        if block.after is not None and block.after.is_free:
            block.size += block.after.size
            block.after = block.after.after
            if block.after is not None:
                block.after.before = block
        self._put(block)

    @property
    def available(self) -> int:
        """Bytes of the segments that are free."""
        return sum(size for free in self._free.values() for size, _, _ in free)

    def _put(self, block: Block) -> None:
        block.is_free = True
        insort(self._free[block.small], (block.size, block.address, block), key=lambda each: each[:2])

    def _segment(self, size: int, small: bool) -> Block:
        taken = SMALL_SEGMENT if small else MEDIUM_SEGMENT if size < MEDIUM else _up(size, SEGMENT_UNIT)
        self.held += taken
        return Block(taken, 2 * self.held * SEGMENT_UNIT, small)  # apart from all others


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
