"""An order of steps that needs little memory. Pure arithmetic: no IR here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass
class Step:
    """`after`: steps that must come before this one. `makes`, `uses`: buffers by number."""

    after: set[int] = field(default_factory=set)
    makes: list[int] = field(default_factory=list)
    uses: set[int] = field(default_factory=set)


def peak(steps: Sequence[Step], order: Sequence[int], sizes: Sequence[int], kept: set[int]) -> int:
    """The most bytes that buffers take at one time in `order`; buffers in `kept` are never freed."""
    left = _users(steps, len(sizes))
    live = most = 0
    for number in order:
        step = steps[number]
        live += sum(sizes[b] for b in step.makes)
        most = max(most, live)
        for b in {*step.uses, *step.makes}:
            left[b] -= b in step.uses
            if left[b] == 0 and b not in kept:
                live -= sizes[b]
    return most


def by_memory(steps: Sequence[Step], sizes: Sequence[int], kept: set[int]) -> list[int]:
    """List scheduling: of the steps that may come next, the one that makes least and frees most; earlier ones first among equals.

    n log n: a step is looked at again only when it has become the last user of a buffer.
    """
    left = _users(steps, len(sizes))
    users: list[list[int]] = [[] for _ in sizes]
    followers: list[list[int]] = [[] for _ in steps]
    missing = [len(step.after) for step in steps]
    for number, step in enumerate(steps):
        for b in step.uses:
            users[b].append(number)
        for earlier in step.after:
            followers[earlier].append(number)

    def growth(number: int) -> int:
        step = steps[number]
        made = sum(sizes[b] for b in step.makes)
        return made - sum(sizes[b] for b in step.uses if left[b] == 1 and b not in kept)

    ready = [(growth(n), n) for n in range(len(steps)) if missing[n] == 0]
    ready.sort()
    done: set[int] = set()
    order = []
    while ready:
        _, number = heappop(ready)
        if number in done:  # it was queued again, with a smaller growth
            continue
        done.add(number)
        order.append(number)
        for b in steps[number].uses:
            left[b] -= 1
            if left[b] == 1:
                last = next(n for n in users[b] if n not in done)
                if missing[last] == 0:
                    heappush(ready, (growth(last), last))
        for follower in followers[number]:
            missing[follower] -= 1
            if missing[follower] == 0:
                heappush(ready, (growth(follower), follower))
    return order


def _users(steps: Sequence[Step], buffers: int) -> list[int]:
    counts = [0] * buffers
    for step in steps:
        for b in step.uses:
            counts[b] += 1
    return counts
