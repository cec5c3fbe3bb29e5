"""A simulator of one rank: a stream that computes, and links on which one collective runs at a time. The other ranks are as fast."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .calls import Collectives


@dataclass(frozen=True)
class Times:
    """Seconds: of each op that computes, by number (0 for others), and of each collective, alone, by the number of its start. `beside`: how
    many times as long a collective takes while something computes."""

    ops: Sequence[float]
    collectives: dict[int, float]
    beside: float = 1.0


@dataclass
class Prediction:
    """Seconds of a run: the `step` as a whole, its parts that compute, those in which a collective runs, those in which it computes nothing
    since a collective is not done; `waited`: the same by the number of the start."""

    step: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    waited: dict[int, float] = field(default_factory=dict)

    @property
    def exposed(self) -> float:
        return sum(self.waited.values())


def predict(order: Iterable[int], found: Collectives, times: Times) -> Prediction:
    """The run of the ops in `order`. What is on the links when all has computed is communication, and is waited for by nobody."""
    told, links = Prediction(), _Links(times.beside)
    for number in order:
        if number in found.starts:
            links.begun.append((number, times.collectives[number]))
        elif number in found.waits:
            start = found.waits[number]
            if seconds := links.finish(start):
                told.waited[start] = told.waited.get(start, 0.0) + seconds
                told.step += seconds
        else:
            links.run(times.ops[number])
            told.step += times.ops[number]
            told.compute += times.ops[number]
    told.communication = links.busy + sum(left for _, left in links.begun)
    return told


class _Links:
    """Collectives under way, the first of which runs. `busy`: seconds in which one ran."""

    def __init__(self, beside: float):
        self.begun: deque[tuple[int, float]] = deque()
        self.beside, self.busy = beside, 0.0

    def run(self, seconds: float) -> None:
        """While something computes for so long."""
        left = seconds / self.beside
        while left > 0 and self.begun:
            number, needed = self.begun.popleft()
            self.busy += self.beside * min(left, needed)
            if needed > left:
                self.begun.appendleft((number, needed - left))
            left -= needed

    def finish(self, start: int) -> float:
        """The seconds until a collective is done, with nothing beside it."""
        if all(number != start for number, _ in self.begun):
            return 0.0
        waited = 0.0
        while True:
            number, needed = self.begun.popleft()
            waited += needed
            if number == start:
                self.busy += waited
                return waited
