"""Order of the ops of a graph function with collectives, and which collectives need the results of which.

Whether a collective needs another is a property of the program, alike on all ranks; where its call stands among kernels is not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from ..analysis.memory.call_order import Step
from ..analysis.memory.call_steps import steps_of
from ..mlir import ir
from .calls import Collectives, collectives_of


@dataclass(frozen=True)
class Dependences:
    """Of the `ops` of a graph function, which `end` ends: a step an op, those with local effects in their order; the collectives `found`, and
    which of them each `needs`."""

    ops: Sequence[ir.Operation]
    end: ir.Operation
    steps: Sequence[Step]
    found: Collectives
    needs: dict[int, frozenset[int]]

    @staticmethod
    def of(graph: ir.Operation, table: ir.SymbolTable) -> "Dependences | None":
        """None where there are fewer than two collectives, which have no order among each other."""
        *ops, end = [op.operation for op in graph.regions[0].blocks[0].operations]
        found = collectives_of(ops, table)
        if len(found.starts) < 2:
            return None
        steps, _, _ = steps_of(ops, end, table, in_order=False)
        needs = needed_collectives(steps, found)
        chained(steps, found)
        return Dependences(ops, end, steps, found, needs)

    def move(self, order: Iterable[int]) -> None:
        """Puts the ops in this order, by their numbers."""
        for number in order:
            self.ops[number].move_before(self.end)


def needed_collectives(steps: Sequence[Step], found: Collectives) -> dict[int, frozenset[int]]:
    """Number of a start -> those of all starts whose results reach it. `steps` without an order of effects."""
    places = {number: 1 << place for place, number in enumerate(found.starts)}
    reaching: list[int] = []
    for step in steps:
        mask = 0
        for earlier in step.after:
            mask |= reaching[earlier] | places.get(earlier, 0)
        reaching.append(mask)
    return {n: frozenset(other for other, bit in places.items() if reaching[n] & bit) for n in places}


def sequence_of(found: Collectives) -> list[int]:
    """The numbers of what has to keep its order: starts, and other calls that ranks may see."""
    return sorted({*found.starts, *found.others})


def chained(steps: Sequence[Step], found: Collectives) -> None:
    """Has `steps` keep the order of local effects: after it is known which collectives need which, which these must not decide."""
    for one, next_ in pairwise(found.local):
        steps[next_].after.add(one)


def reordered(steps: Sequence[Step], sequence: Sequence[int], rank: dict[int, float]) -> list[int] | None:
    """All steps with those of `sequence` in that order, else as near to their own order as can be. `rank`: the places of steps that move, on the
    scale of step numbers; what they need comes along. None where dependences do not allow the sequence."""
    after = [set(step.after) for step in steps]
    for one, next_ in pairwise(sequence):
        after[next_].add(one)
    followers: list[list[int]] = [[] for _ in steps]
    for number, earlier in enumerate(after):
        for other in earlier:
            followers[other].append(number)
    place = [rank.get(number, float(number)) for number in range(len(steps))]
    todo = sorted(rank)
    while todo:
        mover = todo.pop()
        for other in after[mover]:
            if place[other] > place[mover]:
                place[other] = place[mover]
                todo.append(other)
    missing = [len(earlier) for earlier in after]
    ready = [(place[number], number) for number, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for follower in followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, (place[follower], follower))
    return order if len(order) == len(steps) else None
