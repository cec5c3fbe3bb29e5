"""An order of steps that needs little memory. Pure arithmetic: no IR here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass
class Step:
    """`after`: steps that must come before this one. `makes`, `uses`: buffers by number; one that no step makes is there from the beginning.
    `takes`: bytes of its own while it runs."""

    after: set[int] = field(default_factory=set)
    makes: list[int] = field(default_factory=list)
    uses: set[int] = field(default_factory=set)
    takes: int = 0


def peak(steps: Sequence[Step], order: Sequence[int], sizes: Sequence[int], kept: set[int]) -> int:
    """The most bytes that buffers take at one time in `order`; buffers in `kept` are never freed."""
    made = {b for step in steps for b in step.makes}
    begin = sum(size for b, size in enumerate(sizes) if b not in made)
    return max([begin, *(live for _, live, _ in live_bytes(steps, order, sizes, kept))])


def live_bytes(
    steps: Sequence[Step], order: Sequence[int], sizes: Sequence[int], kept: set[int]
) -> list[tuple[int, int, int]]:
    """The bytes that buffers take before each step, while it runs, and after it, by its number, in `order`."""
    left = _users(steps, len(sizes))
    made = {b for step in steps for b in step.makes}
    live, found = sum(size for b, size in enumerate(sizes) if b not in made), [(0, 0, 0)] * len(steps)
    for number in order:
        step = steps[number]
        before = live
        live += sum(sizes[b] for b in step.makes)
        during = live + step.takes
        for b in {*step.uses, *step.makes}:
            left[b] -= b in step.uses
            if left[b] == 0 and b not in kept:
                live -= sizes[b]
        found[number] = before, during, live
    return found


def by_memory(steps: Sequence[Step], sizes: Sequence[int], kept: set[int]) -> list[int]:
    """List scheduling: of the steps that may come next, the one that makes least and frees most; earlier ones first among equals.

    A step that frees nothing at any time, since it needs nothing that a step makes (the cast of a weight), comes right before the first
    that uses what it makes. n log n: a step is looked at again only when it has become the last user of a buffer, or such a step before it
    is done.
    """
    return _Scheduling(steps, sizes, kept).run()


class _Scheduling:
    def __init__(self, steps: Sequence[Step], sizes: Sequence[int], kept: set[int]):
        self.steps, self.sizes, self.kept = steps, sizes, kept
        self.left = _users(steps, len(sizes))
        self.users: list[list[int]] = [[] for _ in sizes]
        self.followers: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            for b in step.uses:
                self.users[b].append(number)
            for earlier in step.after:
                self.followers[earlier].append(number)
        self.deferred: set[int] = set()
        for number, step in enumerate(steps):  # what comes before a step has a smaller number
            if self.followers[number] and not step.uses and step.after <= self.deferred:
                self.deferred.add(number)
        self.missing = [len(step.after - self.deferred) for step in steps]
        self.done: set[int] = set()
        self.order: list[int] = []
        self.ready: list[tuple[int, int]] = []

    def run(self) -> list[int]:
        for number in range(len(self.steps)):
            self._offer(number)
        while self.ready:
            _, number = heappop(self.ready)
            if number in self.done:  # it was queued again, with a smaller growth
                continue
            before = self._before(number)
            self._do(number, before)
            for one in before:
                for follower in self.followers[one]:
                    self._offer(follower)
            for follower in self.followers[number]:
                self.missing[follower] -= 1
                self._offer(follower)
        return self.order

    def _do(self, number: int, before: list[int]) -> None:
        for one in [*before, number]:
            self.done.add(one)
            self.order.append(one)
        for b in self.steps[number].uses:
            self.left[b] -= 1
            if self.left[b] == 1:
                self._offer(next(n for n in self.users[b] if n not in self.done))

    def _offer(self, number: int) -> None:
        """Queues a step that may come next."""
        if self.missing[number] == 0 and number not in self.done and number not in self.deferred:
            heappush(self.ready, (self._growth(number), number))

    def _before(self, number: int) -> list[int]:
        """The steps that have waited for this one to be the first that needs them, in their order."""
        found: set[int] = set()
        todo = [number]
        while todo:
            for earlier in self.steps[todo.pop()].after:
                if earlier in self.deferred and earlier not in self.done and earlier not in found:
                    found.add(earlier)
                    todo.append(earlier)
        return sorted(found)

    def _growth(self, number: int) -> int:
        """By how much more is live after the step than before, with what has waited for it."""
        step = self.steps[number]
        made = sum(self.sizes[b] for n in [*self._before(number), number] for b in self.steps[n].makes)
        return made - sum(self.sizes[b] for b in step.uses if self.left[b] == 1 and b not in self.kept)


def _users(steps: Sequence[Step], buffers: int) -> list[int]:
    counts = [0] * buffers
    for step in steps:
        for b in step.uses:
            counts[b] += 1
    return counts
