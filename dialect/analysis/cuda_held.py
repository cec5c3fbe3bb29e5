"""Rows that registers hold on an NVIDIA GPU: the tiles that they are held as, and what is worth holding."""

from ..mlir import ir
from .accesses import Access
from .cuda_domains import Domain
from .cuda_machine import LARGE, power_of_two

FINER, SMALLEST = 3, 128  # halvings of a row's tile, and elements of one, where it is held as several
FILLED = 0.8  # their points over those of one tile, at most


def tile_of(length: int, filled: float = FILLED) -> int:
    """Elements of a tile of a row that is held: all of it, or, where several tiles have at most `filled` of its points, of one of those."""
    most = power_of_two(length)
    tiles = [most >> n for n in range(FINER + 1) if most >> n >= SMALLEST]
    best = min(tiles, key=lambda tile: (padded(length, tile), -tile), default=most)
    return best if padded(length, best) <= filled * most else most


def padded(length: int, tile: int) -> int:
    """The points of as many tiles as hold `length`."""
    return -(-length // tile) * tile


def read_again(domain: Domain) -> dict[ir.Value, int]:
    """The buffers that two loops along a row read, and the bytes of a row of each."""
    seen: set[ir.Value] = set()
    again: dict[ir.Value, int] = {}
    for loop, length in zip(domain.lanes, domain.lengths):
        read = {a.buffer: a.width for a in domain.accesses if not a.stores and loop in a.loops and _streams(domain, a)}
        again.update(
            (buffer, width * (LARGE if length is None else length)) for buffer, width in read.items() if buffer in seen
        )
        seen |= read.keys()
    return again


def _streams(domain: Domain, access: Access) -> bool:
    """Whether an access is another at each point of the domain."""
    return any(access.varies(index) for index in domain.indices) or not domain.indices
