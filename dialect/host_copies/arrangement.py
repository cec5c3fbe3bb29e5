"""An order of calls in which copies to the host and back run beside what computes. Pure arithmetic: no IR here.

What computes keeps its order. A copy to the host begins when there is what it copies, and is waited for when it should be done: from then on
that has no memory. A copy back is waited for right before its first reader, and begins as early as its bytes are allowed to wait for that.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Copy:
    """`begin`, `wait`: steps by number; `along`: those that only see what it gives otherwise, and come right after the wait. `source`: the step
    after which it may begin, -1 for any; `reader`: the first step that needs it. `leaves`: it is one to the host."""

    begin: int
    wait: int
    bytes: int
    seconds: float
    leaves: bool
    source: int
    reader: int
    along: tuple[int, ...] = ()


@dataclass
class Arrangement:
    """`order`: all steps; seconds: of the copies, and those in which nothing is computed since one is not done."""

    order: list[int]
    seconds: float = 0.0
    exposed: float = 0.0


def arranged(count: int, times: Sequence[float], copies: Sequence[Copy], window: int) -> Arrangement:
    """The `count` steps, of which others than the copies' take `times`. `window`: bytes of copies of one direction under way, and of copies back
    that wait for their reader, at most; one copy at least."""
    return _Arranging(count, times, copies, window).run()


class _Arranging:
    def __init__(self, count: int, times: Sequence[float], copies: Sequence[Copy], window: int):
        self.count, self.times, self.window = count, times, window
        self.moved = {number for copy in copies for number in (copy.begin, copy.wait, *copy.along)}
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
        for number in range(self.count):
            if number not in self.moved:
                self._read(number)
                self._fetch()
                self.told.order.append(number)
                self.clock += self.times[number]
            self._leave(number)
            while self.under_way and self.done[self.under_way[0]] <= self.clock:
                self._wait(self.under_way.popleft())
        while self.under_way:
            self._wait(self.under_way.popleft())
        self._read(self.count)
        return self.told

    def _leave(self, number: int) -> None:
        """Begins the copies to the host of what step `number` has made."""
        for copy in self.leaving.get(number, ()):
            while self.under_way and self._bytes(self.under_way) + copy.bytes > self.window:
                self._wait(self.under_way.popleft())
            self._begin(copy, self.under_way)

    def _read(self, number: int) -> None:
        """Waits for what step `number` reads first."""
        while self.ahead and self.ahead[0].reader <= number or self.coming and self.coming[0].reader <= number:
            if not self.ahead:
                self._begin(self.coming.popleft(), self.ahead)
            self._wait(self.ahead.popleft())

    def _fetch(self) -> None:
        while self.coming and self._bytes(self.ahead) + self.coming[0].bytes <= self.window:
            if self.coming[0].source >= 0:
                return
            self._begin(self.coming.popleft(), self.ahead)

    @staticmethod
    def _bytes(copies: Sequence[Copy] | deque[Copy]) -> int:
        return sum(copy.bytes for copy in copies)

    def _begin(self, copy: Copy, queue: deque[Copy]) -> None:
        self.links[copy.leaves] = self.done[copy] = max(self.links[copy.leaves], self.clock) + copy.seconds
        queue.append(copy)
        self.told.order.append(copy.begin)

    def _wait(self, copy: Copy) -> None:
        waited = max(0.0, self.done[copy] - self.clock)
        self.told.exposed += waited
        self.clock += waited
        self.told.order += [copy.wait, *copy.along]
