"""An order of calls in which collectives run beside what computes. Pure arithmetic: no IR here.

The collectives keep their order among each other, which all ranks share. A gather, which makes more than it takes, begins just in time to be
done when its first reader's turn comes; any other begins as soon as there is what it sends. A wait comes when its collective should be done, and
what does not need it goes before.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise

from ..analysis.memory.call_order import Step
from .calls import Collectives
from .dependences import sequence_of
from .simulation import Times


def overlapped(steps: Sequence[Step], found: Collectives, times: Times, slack: float, pull: bool) -> list[int]:
    """All steps, in another order. `slack`: how many times its time a collective is given. `pull`: whether what computes may come before
    a wait that stands before it."""
    return _Scheduling(steps, found, times, slack, pull).run()


class _Scheduling:
    def __init__(self, steps: Sequence[Step], found: Collectives, times: Times, slack: float, pull: bool):
        self.found, self.times, self.slack, self.pull = found, times, slack, pull
        self.seconds = times.overlapped()
        self.sequence = sequence_of(found)
        self.after = [set(step.after) for step in steps]
        for one, next_ in pairwise(self.sequence):
            self.after[next_].add(one)
        self.followers: list[list[int]] = [[] for _ in steps]
        for number, earlier in enumerate(self.after):
            for other in earlier:
                self.followers[other].append(number)
        self.latest = self._latest()
        self.missing = [len(earlier) for earlier in self.after]
        self.ready: list[int] = []  # what computes, in the order of the program
        self.starts: list[int] = []  # at most one: they have an order
        self.waits: list[int] = []
        self.order: list[int] = []
        self.clock = self.work = self.links = 0.0
        self.done: dict[int, float] = {}

    def _latest(self) -> dict[int, float]:
        """Number of a gather -> the seconds of computing after which it has to begin."""
        at, total = [], 0.0
        for seconds in self.times.ops:
            at.append(total)
            total += seconds
        latest, horizon = dict[int, float](), total
        for number in reversed(self.sequence):
            start = self.found.starts.get(number)
            if start is None:
                continue
            gathers = start.sent is not None and start.received is not None and start.received > start.sent
            if gathers:
                readers = [at[user] for wait in start.waits for user in self.followers[wait]]
                spare = (self.slack - 1) * self.seconds[number]
                horizon = min([horizon, *(reader - spare for reader in readers)])
            horizon -= self.seconds[number]
            if gathers:
                latest[number] = horizon
        return latest

    def run(self) -> list[int]:
        for number, count in enumerate(self.missing):
            if not count:
                self._offer(number)
        while self.ready or self.starts or self.waits:
            self._step()
        return self.order

    def _offer(self, number: int) -> None:
        if number in self.found.starts:
            self.starts.append(number)
        else:
            heappush(self.waits if number in self.found.waits else self.ready, number)

    def _take(self, number: int) -> None:
        self.order.append(number)
        for follower in self.followers[number]:
            self.missing[follower] -= 1
            if not self.missing[follower]:
                self._offer(follower)

    def _step(self) -> None:
        if self.starts and self._is_due(self.starts[0]):
            self._begin(self.starts.pop())
            return
        over = [wait for wait in self.waits if self._end(wait) <= self.clock]
        if over:
            self._wait(over[0])
            return
        blocked = min(self.waits, default=None)
        if self.ready and (blocked is None or self.ready[0] < blocked or self._may_pull(blocked)):
            number = heappop(self.ready)
            self.clock += self.times.ops[number]
            self.work += self.times.ops[number]
            self._take(number)
        elif blocked is not None:
            self._wait(blocked)

    def _is_due(self, start: int) -> bool:
        """Whether after what computes next it would be too late."""
        if not self.ready:
            return not self.waits or start not in self.latest
        return self.work + self.times.ops[self.ready[0]] > self.latest.get(start, 0.0)

    def _may_pull(self, wait: int) -> bool:
        """Whether what is ready may go before a wait that stands before it: the wait ends nothing, or it is shorter than what is left."""
        if not any(follower not in self.found.waits for follower in self.followers[wait]):
            return True
        left = self.done[self.found.waits[wait]] - self.clock
        return self.pull and left > 0 and self.times.ops[self.ready[0]] <= 2 * left

    def _end(self, wait: int) -> float:
        """When a collective is done, if it takes `slack` times its time."""
        start = self.found.waits[wait]
        return self.done[start] + (self.slack - 1) * self.seconds[start]

    def _begin(self, number: int) -> None:
        self.links = self.done[number] = max(self.links, self.clock) + self.seconds[number]
        self._take(number)

    def _wait(self, wait: int) -> None:
        self.waits.remove(wait)
        self.clock = max(self.clock, self.done[self.found.waits[wait]])
        self._take(wait)
