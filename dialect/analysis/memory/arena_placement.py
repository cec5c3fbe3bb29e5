"""Placing buffers of known life and size in one block of memory, an arena, or apart from it. Pure arithmetic: no IR here.

An arena exists from the first of its buffers to the end, or to the last of them, in its full size. Around it other memory comes and goes: what a
forward saved dies in the course of its backward, results are made. A buffer that is not alive when the sum is largest is then in the way.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
LARGE = 512  # the most buffers that are placed by size, which takes quadratic time
LEAST = 1 << 16  # bytes of an arena that is not worth a second allocation
KEPT = 1 << 18  # bytes: an arena on a GPU up to this size is kept between calls
SMALL_SHARE = 256  # what is smaller than this part of the largest live set is not placed by size


@dataclass(frozen=True)
class Interval:
    """A buffer that is needed from time `first` to time `last`, both included."""

    first: int
    last: int
    size: int  # bytes


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def largest_live_set(intervals: Sequence[Interval]) -> int:
    """The most bytes needed at one time: no placement takes less."""
    events = sorted([(i.first, 0, i.size) for i in intervals] + [(i.last, 1, -i.size) for i in intervals])
    live = most = 0
    for _, _, change in events:
        live += change
        most = max(most, live)
    return most


def place(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """An offset for each interval, and the size of the whole. Offsets and sizes are multiples of `ALIGNMENT`.

    The better of two: best fit in order of time; and the large ones first, by size, the rest behind them. n log n.
    """
    by_time = _by_time(intervals)
    least = largest_live_set([Interval(i.first, i.last, aligned(i.size)) for i in intervals])
    if by_time[1] == least:
        return by_time
    order = sorted(range(len(intervals)), key=lambda n: (-intervals[n].size, intervals[n].first))
    large = [n for n in order[:LARGE] if intervals[n].size * SMALL_SHARE >= least]
    rest = sorted(set(order) - set(large))
    offsets = [0] * len(intervals)
    found, end = _by_size([intervals[n] for n in large])
    behind, length = _by_time([intervals[n] for n in rest])
    for n, offset in [*zip(large, found), *((n, end + o) for n, o in zip(rest, behind))]:
        offsets[n] = offset
    return min(by_time, (offsets, end + length), key=lambda placed: placed[1])


def _by_time(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Each buffer, when it is made, takes the smallest gap that holds it."""
    events = sorted(
        [(i.first, 1, number) for number, i in enumerate(intervals)]
        + [(i.last + 1, 0, number) for number, i in enumerate(intervals)]
    )
    gaps, offsets = _Gaps(), [0] * len(intervals)
    for _, starts, number in events:
        size = aligned(intervals[number].size)
        if starts:
            offsets[number] = gaps.take(size)
        else:
            gaps.give(offsets[number], size)
    return offsets, gaps.end


def _by_size(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """In the order given, each buffer takes the smallest gap between those that are needed while it is. Quadratic."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), sorted
    offsets, total = [], 0
    for interval in intervals:
        size, first, last = aligned(interval.size), interval.first, interval.last
        best, room, position = None, 0, 0
        for offset, end, f, t in placed:
            if t < first or last < f:
                continue
            if offset - position >= size and (best is None or offset - position < room):
                best, room = position, offset - position
            position = max(position, end)
        start = position if best is None else best
        offsets.append(start)
        insort(placed, (start, start + size, first, last))
        total = max(total, start + size)
    return offsets, total


def apart(
    buffers: Sequence[Interval],
    others: Sequence[Interval],
    end: int,
    slack: int,
    movable: Callable[[Interval], bool] = lambda buffer: True,
    *,
    worth: int = 0,
    freed: int | None = None,
) -> set[int]:
    """The numbers of the `buffers` to allocate apart, so that the peak is at most a `slack`th above what it were if each buffer was alone.

    `others` is what is alive beside them. Times are from 0 to `end`. `movable` says which buffers may be apart. `worth`: bytes of the peak that
    are worth one more allocation; with them what else would lower it is weighed too. `freed`: an arena of more bytes than these ends with the
    last buffer in it.
    """
    around = _live(others, end)
    least = max(map(sum, zip(around, _live(buffers, end))))

    def without(moved: frozenset[int]) -> _Split:
        kept = [n for n in range(len(buffers)) if n not in moved]
        _, size = place([buffers[n] for n in kept])
        lasts = freed is None or size <= freed
        last = end if lasts else max(buffers[n].last for n in kept)
        arena = Interval(min((buffers[n].first for n in kept), default=end), last, size)
        total = list(map(sum, zip(around, _live([arena, *(buffers[n] for n in moved)], end))))
        peak = max(total)
        return _Split(moved, arena, peak, total.index(peak), peak - least)

    def within(split: _Split) -> bool:
        return split.arena.size <= LEAST or split.excess * slack <= least

    found = [without(frozenset())]
    for way in (_idle, _early, _late) if worth else (_idle,):
        now = found[0]
        while now.arena.size > LEAST and (now.excess > worth if worth else not within(now)):
            group = way(now, {n: each for n, each in enumerate(buffers) if n not in now.moved and movable(each)})
            if not group:
                break
            now = without(now.moved | group)
            found.append(now)
    good = [split for split in found if within(split)] or found
    return set(min(good, key=lambda split: (split.peak + worth * len(split.moved), len(split.moved))).moved)


@dataclass(frozen=True)
class _Split:
    """Buffers `moved` out of an arena: the `peak` then, the first time `at` which it is, and how far it is above the least."""

    moved: frozenset[int]
    arena: Interval
    peak: int
    at: int
    excess: int


def _idle(split: _Split, kept: dict[int, Interval]) -> set[int]:
    """Of what the arena has room for at the peak, though it is not alive, the largest."""
    idle = {n: buffer.size for n, buffer in kept.items() if not buffer.first <= split.at <= buffer.last}
    largest = max(idle.values(), default=0)
    return {n for n, size in idle.items() if 2 * size > largest}


def _early(split: _Split, kept: dict[int, Interval]) -> set[int]:
    """All for which the arena is there at the peak: it begins after that."""
    return {n for n, buffer in kept.items() if buffer.first <= split.at} if split.at <= split.arena.last else set()


def _late(split: _Split, kept: dict[int, Interval]) -> set[int]:
    """All for which the arena is there at the peak: it ends before that, if it is freed then."""
    return {n for n, buffer in kept.items() if buffer.last >= split.at} if split.at >= split.arena.first else set()


def _live(intervals: Sequence[Interval], end: int) -> list[int]:
    """The bytes that are alive at each time."""
    changes = [0] * (end + 2)
    for interval in intervals:
        changes[interval.first] += interval.size
        changes[interval.last + 1] -= interval.size
    return list(accumulate(changes[:-1]))


def color(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """A number for each interval, such that intervals of one number never meet, and how many numbers there are."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # (last, number), a heap
    numbers, count = [0] * len(intervals), 0
    for k in sorted(range(len(intervals)), key=lambda k: intervals[k].first):
        while busy and busy[0][0] < intervals[k].first:
            free.append(heappop(busy)[1])
        if not free:
            free.append(count)
            count += 1
        numbers[k] = free.pop()
        heappush(busy, (intervals[k].last, numbers[k]))
    return numbers, count


class _Gaps:
    """The free ranges below `end`. No two of them touch."""

    def __init__(self) -> None:
        self.end = 0
        self.by_size: list[tuple[int, int]] = []  # (size, start), sorted
        self.starts: dict[int, int] = {}  # start -> size
        self.ends: dict[int, int] = {}  # end -> start

    def take(self, size: int) -> int:
        if size == 0:
            return 0
        found = bisect_left(self.by_size, (size, -1))
        if found < len(self.by_size):
            have, start = self.by_size[found]
            self._remove(start)
            if have > size:
                self._add(start + size, have - size)
            return start
        start = self.ends.get(self.end, self.end)  # the gap at the end, if there is one, is widened
        if start != self.end:
            self._remove(start)
        self.end = start + size
        return start

    def give(self, start: int, size: int) -> None:
        if size == 0:
            return
        after = self.starts.get(start + size)
        if after is not None:
            self._remove(start + size)
            size += after
        before = self.ends.get(start)
        if before is not None:
            self._remove(before)
            start, size = before, size + start - before
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self.by_size, (size, start))
        self.starts[start], self.ends[start + size] = size, start

    def _remove(self, start: int) -> None:
        size = self.starts.pop(start)
        del self.ends[start + size]
        del self.by_size[bisect_left(self.by_size, (size, start))]
