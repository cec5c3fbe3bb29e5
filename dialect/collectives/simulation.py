"""A simulator of one rank: a stream that computes, and links on which one collective runs at a time. The other ranks are as fast.

A GPU begins the blocks of a kernel when all those of the kernel before have begun. So a collective that is launched with a product, or ready
while one runs, begins when the product's last blocks have, and most run on after the product, while nothing computes until the next op begins.
But where a product's blocks take tiles by a counter, the counter is set first, and a collective that is ready begins in that time.
Before a collective a copy may run on a stream of its own, beside all else.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .calls import Collectives

LEAST = 1e-12  # s, which no sum of roundings reaches


@dataclass(frozen=True)
class Filling:
    """Of a product, which has all multiprocessors: the `seconds` until the last of its blocks begins, how many are `left` then, and for how long
    (`rest`). `counter`: those before it, in which its counter of tiles is set and nothing computes, if it has one."""

    seconds: float
    left: int
    rest: float = 0.0
    counter: float = 0.0


class Slowed(NamedTuple):
    """How many times as long each takes beside the other."""

    collective: float
    op: float


@dataclass(frozen=True)
class Times:
    """Seconds: of each op that computes, by number (0 for others), and of each collective, alone, by the number of its start. `beside`: how
    many times as long a collective takes while something computes; `memory`: beside an op that is no product, if that is different. `filling`:
    by number of an op. `gap`: those of each op before it computes, `copy_gap` where it is one of `moves`. `event`: those of each event that the
    stream which computes records or waits for, before its next op computes. A collective needs `blocks` of the `multiprocessors`. `copies`: of
    the copy before a collective, by the number of its start. `moves`: the ops that only copy within the memory, which a profiler shows as such,
    and not as kernels. `host`: when the host launches an op or begins a collective, by number; of others it is ahead."""

    ops: Sequence[float]
    collectives: dict[int, float]
    beside: float = 1.0
    filling: Mapping[int, Filling] = field(default_factory=dict)
    gap: float = 0.0
    copy_gap: float = 0.0
    event: float = 0.0
    blocks: int = 0
    multiprocessors: int = 1
    copies: Mapping[int, float] = field(default_factory=dict)
    moves: Collection[int] = ()
    host: Mapping[int, float] = field(default_factory=dict)
    memory: Slowed | None = None

    def overlapped(self) -> dict[int, float]:
        """Of each collective from its first block to its last, beside what computes: a product of the mean, where there are any."""
        waits = [each.rest if each.left < self.blocks else 0.0 for each in self.filling.values()]
        waited = sum(waits) / len(waits) if waits else 0.0
        return {number: self.beside * alone + waited for number, alone in self.collectives.items()}


@dataclass
class Prediction:
    """Seconds of a run: the `step` as a whole, its parts that compute or copy, those in which a collective runs; `waited`: those in which
    nothing computes since a collective is not done, by the number of its start; `between`: those in which one runs between two ops, and nothing
    computes either; `late`: in which one runs, and what computes next is not launched yet; `beside_moves`: those of the communication beside
    which there is nothing but a copy within the memory."""

    step: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    waited: dict[int, float] = field(default_factory=dict)
    between: float = 0.0
    late: float = 0.0
    beside_moves: float = 0.0

    @property
    def exposed(self) -> float:
        return sum(self.waited.values()) + self.between + self.late


def predict(order: Iterable[int], found: Collectives, times: Times) -> Prediction:
    """The run of the ops in `order`. What is on the links when all has computed is communication, and is waited for by nobody."""
    told, links, events = Prediction(), _Links(times), 0
    for number in order:
        launched = times.host.get(number, 0.0)
        if number in found.starts:
            copy = times.copies.get(number, 0.0)
            links.begun.append(_Begun(number, times.collectives[number], copy=copy, launched=launched))
            events += 1
        elif number in found.waits:
            start = found.waits[number]
            seconds, copied = links.finish(start)
            if seconds:
                told.waited[start] = told.waited.get(start, 0.0) + seconds
            told.compute += copied
            events += 1
        elif times.ops[number]:
            told.late += links.idle(launched)
            gap = min(times.copy_gap if number in times.moves else times.gap, times.ops[number])
            told.between += links.go_on(gap + events * times.event)
            filling = times.filling.get(number)
            if filling and filling.counter:
                gap += filling.counter
                told.between += links.go_on(filling.counter, begins=True)
            before = links.busy
            computing = links.run(times.ops[number] - gap, filling)
            if number in times.moves:
                told.beside_moves += links.busy - before
            told.compute += gap + computing
            events = 0
    told.step = links.now
    told.communication = links.busy + sum(each.needed for each in links.begun)
    return told


@dataclass
class _Begun:
    """A collective that takes `needed` seconds more, alone, and the copy before it `copy`. `runs`: it has multiprocessors. `launched`: when the
    host does, before which neither begins."""

    number: int
    needed: float
    runs: bool = False
    copy: float = 0.0
    launched: float = 0.0


class _Links:
    """Collectives under way, the first of which runs. `now`: seconds since the step began; `busy`: those in which one ran."""

    def __init__(self, times: Times):
        self.begun: deque[_Begun] = deque()
        self.blocks, self.busy, self.now = times.blocks, 0.0, 0.0
        self.product = Slowed(times.beside, times.multiprocessors / (times.multiprocessors - times.blocks))
        self.memory = times.memory or Slowed(times.beside, 1.0)

    def run(self, seconds: float, filling: Filling | None) -> float:
        """While something computes that takes so long alone. Gives the seconds that it takes: a product has what a collective leaves it."""
        left, start = seconds, self.now
        beside, slower = self.product if filling else self.memory
        if filling and not (self.begun and self.begun[0].runs):
            slower = 1.0
        while left > LEAST and self.begun:
            first = self.begun[0]
            if not first.runs and (waited := self._before(first)) > LEAST:
                spent = min(left, waited)
                self._copy(spent)
                self.now, left = self.now + spent, left - spent
                continue
            if first.runs or filling is None:
                first.runs = True
                spent = self._pass(left * slower, beside)
            else:
                slower, first.runs = 1.0, True
                waited = min(left, max(0.0, filling.seconds - (seconds - left)))
                # Each block has its part of the bytes: where some wait for the product's end, it takes as long from there as alone.
                spent = left if filling.left < self.blocks else waited
                self.busy += spent - waited
            left -= spent / slower
            self._copy(spent)
            self.now += spent
        self.now += left
        return self.now - start

    def _before(self, first: _Begun) -> float:
        """The seconds until a collective can begin: it is not launched yet, or a copy before it is not done."""
        return max(0.0, first.launched - self.now) + first.copy

    def _copy(self, seconds: float) -> None:
        """Copies that are launched go on."""
        for each in self.begun:
            each.copy = max(0.0, each.copy - max(0.0, seconds - max(0.0, each.launched - self.now)))

    def go_on(self, seconds: float, begins: bool = False) -> float:
        """Between two ops: what runs goes on, what is begun waits for the next op's launch, unless it `begins` before. Gives the seconds in
        which one runs."""
        if begins and self.begun and self._before(self.begun[0]) <= LEAST:
            self.begun[0].runs = True
        passed = self._pass(seconds, 1.0) if self.begun and self.begun[0].runs else 0.0
        self.now += seconds
        return passed

    def idle(self, until: float) -> float:
        """Nothing computes until then, for the host has launched nothing. Gives the seconds in which a collective runs."""
        passed = 0.0
        while self.now + LEAST < until and self.begun:
            first, left = self.begun[0], until - self.now
            if not first.runs and (waited := self._before(first)) > LEAST:
                spent = min(left, waited)
            else:
                first.runs = True
                spent = self._pass(left, 1.0)
                passed += spent
            self._copy(spent)
            self.now += spent
        self.now = max(self.now, until)
        return passed

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

    def finish(self, start: int) -> tuple[float, float]:
        """The seconds until a collective is done, with nothing beside it: in which one runs, and in which only a copy does."""
        waited = copied = 0.0
        while any(each.number == start for each in self.begun):
            first = self.begun.popleft()
            begun = max(self.now, first.launched)
            self._copy(begun - self.now + first.copy + first.needed)
            self.now = begun + first.copy + first.needed
            copied += first.copy
            waited += first.needed
        self.busy += waited
        return waited, copied
