"""An order of calls in which copies to the host and back run beside what computes. Pure arithmetic: no IR here.

What computes keeps its order. A copy to the host begins when there is what it copies, and is waited for when it should be done: from then on
that has no memory. A copy back is waited for right before its first reader, and begins as early as no more bytes are live anywhere than if
each copy were waited for at once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Copy:
    """`begin`, `wait`: steps by number; `along`: those that only see what it gives otherwise, and come right after the wait. `source`: the step
    after which it may begin, -1 for any; `reader`: the first step that needs it, or for a copy that `leaves`, one to the host, the first
    without whom that which it copies would have no memory any more."""

    begin: int
    wait: int
    bytes: int
    seconds: float
    leaves: bool
    source: int
    reader: int
    along: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        return self.begin, self.wait, *self.along


@dataclass
class Arrangement:
    """`order`: all steps; seconds: of the copies, and those in which nothing is computed since one is not done."""

    order: list[int]
    seconds: float = 0.0
    exposed: float = 0.0


def at_once(count: int, copies: Sequence[Copy]) -> list[int]:
    """The order of `count` steps in which each copy is waited for when it has begun: right after its source, or before its reader."""
    moved = {number for copy in copies for number in copy.steps}
    after, before = dict[int, list[int]](), dict[int, list[int]]()
    for copy in copies:
        places, place = (after, copy.source) if copy.leaves else (before, copy.reader)
        places.setdefault(place, []).extend(copy.steps)
    order = [*after.get(-1, ())]
    for number in range(count):
        order += before.get(number, ())
        order += [] if number in moved else [number]
        order += after.get(number, ())
    return order + before.get(count, [])


def arranged(times: Sequence[float], live: Sequence[int], copies: Sequence[Copy], most: int) -> Arrangement:
    """The steps, of which others than the copies' take `times`, and have `live` bytes meanwhile if each copy is waited for at once. `most`:
    bytes that copies under way may make it."""
    return _Arranging(times, live, copies, most).run()


class _Arranging:
    def __init__(self, times: Sequence[float], live: Sequence[int], copies: Sequence[Copy], most: int):
        self.times, self.live, self.most = times, list(live), most
        moved = {number for copy in copies for number in copy.steps}
        self.rest = [number for number in range(len(times)) if number not in moved]
        self.leaving: dict[int, list[Copy]] = {}
        for copy in copies:
            if copy.leaves:
                self.leaving.setdefault(copy.source, []).append(copy)
        self.coming = deque(sorted((copy for copy in copies if not copy.leaves), key=lambda each: each.reader))
        self.under_way: deque[Copy] = deque()  # to the host
        self.ahead: deque[Copy] = deque()  # back, in the order of their readers
        self.done: dict[Copy, float] = {}
        self.clock, self.links = 0.0, {True: 0.0, False: 0.0}
        self.told = Arrangement([], sum(copy.seconds for copy in copies))

    def run(self) -> Arrangement:
        self._leave(-1)
        for place, number in enumerate(self.rest):
            self._read(number)
            self._make_room(number)
            self._fetch(place)
            self.told.order.append(number)
            self.clock += self.times[number]
            self._leave(number)
            while self.under_way and self.done[self.under_way[0]] <= self.clock:
                self._wait(self.under_way.popleft())
        while self.under_way:
            self._wait(self.under_way.popleft())
        self._read(len(self.times))
        return self.told

    def _leave(self, number: int) -> None:
        """Begins the copies to the host of what step `number` has made."""
        for copy in self.leaving.get(number, ()):
            self._begin(copy, self.under_way)

    def _make_room(self, number: int) -> None:
        """Waits for copies to the host, the oldest first, until step `number` has the memory that it needs."""
        while self.under_way and self.live[number] + self._held(number) > self.most:
            self._wait(self.under_way.popleft())

    def _held(self, number: int) -> int:
        """The bytes that are still there for copies to the host alone."""
        return sum(copy.bytes for copy in self.under_way if copy.reader <= number)

    def _read(self, number: int) -> None:
        """Waits for what step `number` reads first."""
        while (self.ahead and self.ahead[0].reader <= number) or (self.coming and self.coming[0].reader <= number):
            if not self.ahead:
                self._begin(self.coming.popleft(), self.ahead)
            self._wait(self.ahead.popleft())

    def _fetch(self, place: int) -> None:
        """Begins the copies back for which there is memory from the step at `place` on."""
        while self.coming and self.coming[0].source < self.rest[place]:
            copy, end = self.coming[0], place
            while end < len(self.rest) and self.rest[end] < copy.reader:
                if self.live[self.rest[end]] + copy.bytes + self._held(self.rest[end]) > self.most:
                    return
                end += 1
            for number in self.rest[place:end]:
                self.live[number] += copy.bytes
            self._begin(self.coming.popleft(), self.ahead)

    def _begin(self, copy: Copy, queue: deque[Copy]) -> None:
        self.links[copy.leaves] = self.done[copy] = max(self.links[copy.leaves], self.clock) + copy.seconds
        queue.append(copy)
        self.told.order.append(copy.begin)

    def _wait(self, copy: Copy) -> None:
        waited = max(0.0, self.done[copy] - self.clock)
        self.told.exposed += waited
        self.clock += waited
        self.told.order += [copy.wait, *copy.along]
