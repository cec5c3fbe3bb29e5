"""Rows that are too long for one program of an NVIDIA GPU to hold, and are read again: the programs of a cluster hold them together.

Each has every `cluster`-th tile of the row in registers, and tells the others what it reduced to. So the row is read from memory once. While
they meet they move nothing: rows whose reductions wait for each other (a softmax), for which they would meet twice, are walked as fast (H200).
"""

from .bodies import sizes_of
from .cuda_domains import Domain, DomainSchedule
from .cuda_held import padded, read_again, tile_of
from .cuda_machine import WARP, power_of_two
from .nested_loops import inner_loops, iterations, needs

CAPABILITY = 90  # of the first GPU that has clusters
MOST_PROGRAMS = 8  # that every one of them starts together
SHARE = 5 / 16  # of the registers of a multiprocessor, that hold what a program has of a row: two of them share one
WASTED = 1.25  # points of all tiles over those of the row
HELD = 80  # elements that a thread has: several programs of few warps hide more of what each waits for than one of many
BUSY = 2  # programs of a multiprocessor, if rows are few
LEAST = 4096  # elements that are worth a program of their own


def shared_rows(domain: Domain) -> DomainSchedule | None:
    """None where a row is read once, or only reduced, or reduced twice, or has loops of several lengths or inside of others."""
    length = _length(domain)
    if length is None:
        return None
    values = max(1, len(read_again(domain)))
    programs = _programs(domain, length, int(domain.machine.registers * SHARE) // values)
    if programs == 0:
        return None
    step = tile_of(-(-length // programs))
    held = [loop for loop in domain.inner if iterations(sizes_of(loop)) == length]
    loops = domain.plan({loop: step for loop in held}, held)
    order = list(range(len(domain.indices)))
    share = padded(length, step * programs) // programs
    axes, tile = ([len(order)], [1]) if order else ([], [])
    return DomainSchedule("row", order, axes, tile, power_of_two(-(-share // (WARP * HELD))), cluster=programs, loops=loops)


def _length(domain: Domain) -> int | None:
    """Of the rows, if programs can share them."""
    if domain.machine.capability < CAPABILITY or not domain.alone or domain.lanes != domain.inner:
        return None
    if any(inner_loops(loop) or loop.name == "bascule.scan" for loop in domain.inner):
        return None
    lengths = {iterations(sizes_of(loop)) for loop in domain.inner} - {1}
    (length,) = lengths if len(lengths) == 1 else (None,)
    reduces = [loop for loop in domain.inner if loop.name == "bascule.reduce"]
    online = any(loop.attributes["kind"].value == "softmax" for loop in reduces)  # two exponentials an element
    once = bool(reduces) and not online and not any(needs(loop, reduces) for loop in reduces)
    again = len(reduces) < len(domain.inner) and domain.points is not None and read_again(domain)
    return length if once and again else None


def _programs(domain: Domain, length: int, most: int) -> int:
    """So many that none has more than `most` elements, and more if rows are few; 0: there cannot be enough."""
    assert domain.points is not None
    busy, programs = BUSY * domain.machine.sm_count, 2
    while programs < MOST_PROGRAMS and (
        length > most * programs or (domain.points * programs < busy and length >= 2 * LEAST * programs)
    ):
        programs *= 2
    share = padded(length, tile_of(-(-length // programs)) * programs) // programs
    return programs if share <= most and share * programs <= WASTED * length else 0
