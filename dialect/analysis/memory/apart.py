"""Which buffers have a place in an arena, and which are better allocated apart. Pure arithmetic: no IR here.

An arena exists from the first of its buffers to the end, in its full size. Around it other memory comes and goes: what a forward saved dies
in the course of its backward, results are made. A buffer that is not alive when the sum is largest is then in the way.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from .arena_placement import Interval, place

LEAST = 1 << 16  # bytes of an arena that is not worth a second allocation


def apart(
    buffers: Sequence[Interval],
    others: Sequence[Interval],
    end: int,
    slack: int,
    movable: Callable[[Interval], bool] = lambda buffer: True,
) -> set[int]:
    """The numbers of the `buffers` to allocate apart, so that the peak is at most a `slack`th above what it were if each buffer was alone.

    `others` is what is alive beside them. Times are from 0 to `end`. `movable` says which buffers may be apart.
    """
    moved: set[int] = set()
    around = _live(others, end)
    least = max(map(sum, zip(around, _live(buffers, end))))
    while len(moved) < len(buffers):
        kept = [n for n in range(len(buffers)) if n not in moved]
        _, size = place([buffers[n] for n in kept])
        if size <= LEAST:
            break
        arena = Interval(min(buffers[n].first for n in kept), end, size)
        total = list(map(sum, zip(around, _live([arena, *(buffers[n] for n in moved)], end))))
        peak = max(total)
        if (peak - least) * slack <= least:
            break
        at = total.index(peak)
        idle = [n for n in kept if not buffers[n].first <= at <= buffers[n].last and movable(buffers[n])]
        if not idle:
            break
        largest = max(buffers[n].size for n in idle)
        moved.update(n for n in idle if 2 * buffers[n].size > largest)
    return moved


def _live(intervals: Sequence[Interval], end: int) -> list[int]:
    """The bytes that are alive at each time."""
    changes = [0] * (end + 2)
    for interval in intervals:
        changes[interval.first] += interval.size
        changes[interval.last + 1] -= interval.size
    return list(accumulate(changes[:-1]))
