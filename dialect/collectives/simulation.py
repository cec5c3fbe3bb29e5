"""A simulator of one rank: a stream that computes, and links on which one collective runs at a time. The other ranks are as fast."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .calls import Collectives


@dataclass(frozen=True)
class Times:
    """Seconds: of each op that computes, by number (0 for others), and of each collective, alone, by the number of its start. `beside`: how
    many times as long a collective takes while something computes. `filling`: those of each op in which it has all multiprocessors;
    `residency`: the part of them that a collective takes longer which begins beside it. `launch`: those of each op before it computes."""

    ops: Sequence[float]
    collectives: dict[int, float]
    beside: float = 1.0
    filling: Sequence[float] = ()
    residency: float = 0.0
    launch: float = 0.0

    def overlapped(self) -> dict[int, float]:
        """Of each collective, beside what computes: a product of the mean length, where there are any."""
        filling = [seconds for seconds in self.filling if seconds]
        residency = self.residency * sum(filling) / len(filling) if filling else 0.0
        return {number: self.beside * alone + residency for number, alone in self.collectives.items()}


@dataclass
class Prediction:
    """Seconds of a run: the `step` as a whole, its parts that compute, those in which a collective runs, those in which it computes nothing
    since a collective is not done; `waited`: the same by the number of the start; `between`: those in which one runs while a kernel is
    launched, and nothing computes either."""

    step: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    waited: dict[int, float] = field(default_factory=dict)
    between: float = 0.0

    @property
    def exposed(self) -> float:
        return sum(self.waited.values()) + self.between


def predict(order: Iterable[int], found: Collectives, times: Times) -> Prediction:
    """The run of the ops in `order`. What is on the links when all has computed is communication, and is waited for by nobody."""
    told, links = Prediction(), _Links(times.beside, times.residency)
    for number in order:
        if number in found.starts:
            links.begun.append(_Begun(number, times.collectives[number]))
        elif number in found.waits:
            start = found.waits[number]
            if seconds := links.finish(start):
                told.waited[start] = told.waited.get(start, 0.0) + seconds
                told.step += seconds
        else:
            launch = min(times.launch, times.ops[number])
            told.between += links.go_on(launch)
            links.run(times.ops[number] - launch, times.filling[number] if times.filling else 0.0)
            told.step += times.ops[number]
            told.compute += times.ops[number]
    told.communication = links.busy + sum(each.needed for each in links.begun)
    return told


@dataclass
class _Begun:
    """A collective that takes `needed` seconds more, alone. `runs`: it has multiprocessors."""

    number: int
    needed: float
    runs: bool = False


class _Links:
    """Collectives under way, the first of which runs. `busy`: seconds in which one ran."""

    def __init__(self, beside: float, residency: float):
        self.begun: deque[_Begun] = deque()
        self.beside, self.residency, self.busy = beside, residency, 0.0

    def run(self, seconds: float, filling: float) -> None:
        """While something computes for so long, with all multiprocessors for `filling` of it."""
        left = seconds
        while left > 0 and self.begun:
            first = self.begun[0]
            if not first.runs:
                first.runs = True
                first.needed += self.residency * filling / self.beside
            left -= self._pass(left, self.beside)

    def go_on(self, seconds: float) -> float:
        """While a kernel is launched: what runs goes on, what is begun waits for the same launch. Gives the seconds in which one runs."""
        return self._pass(seconds, 1.0) if self.begun and self.begun[0].runs else 0.0

    def _pass(self, seconds: float, beside: float) -> float:
        """As many of the seconds as the first takes."""
        first = self.begun[0]
        passed = min(seconds, first.needed * beside)
        self.busy += passed
        if passed < seconds:
            self.begun.popleft()
        else:
            first.needed -= passed / beside
        return passed

    def finish(self, start: int) -> float:
        """The seconds until a collective is done, with nothing beside it."""
        if all(each.number != start for each in self.begun):
            return 0.0
        waited = 0.0
        while True:
            first = self.begun.popleft()
            waited += first.needed
            if first.number == start:
                self.busy += waited
                return waited
