"""Hooks of FSDP2's `fully_shard` between compiled graphs: they gather parameters ahead, and scatter gradients behind.

In a forward the hook before a unit begins its gather, has the unit wait for it, and copies the parameters out of it. The gather waits for the
copy out of the last unit but one, so that it runs beside that one. In a backward the hook before a unit copies its parameters out, and begins
the gather of the unit whose forward ran before it, which waits for that copy. The hook after a unit waits for the scatter of the unit after it,
whose memory it frees, copies the gradients together and begins their scatter with its reduction. A unit whose inputs need no gradient scatters
at the end, which waits for all.

All collectives are of one group, so that they run in the order in which they are begun.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .timeline import ALL_GATHER, BEGINNING, REDUCE_SCATTER, Call, Timeline


@dataclass(frozen=True)
class Unit:
    """Modules that `fully_shard` was given at once. `gathered`, `scattered`: bytes of their parameters and gradients, whole, with padding.
    `reshards`: whether the parameters are let go of after the forward."""

    name: str
    gathered: int
    scattered: int
    reshards: bool = True


class Hook(Enum):
    """Where PyTorch calls FSDP."""

    PRE_FORWARD = "pre_forward"
    POST_FORWARD = "post_forward"
    PRE_BACKWARD = "pre_backward"
    POST_BACKWARD = "post_backward"


@dataclass(frozen=True)
class At:
    """A hook of a unit runs."""

    hook: Hook
    unit: str


@dataclass
class Sharding:
    """The state of the hooks in a step. `kept`: scatters whose input is kept before the next one waits."""

    timeline: Timeline
    units: dict[str, Unit]
    ranks: int
    kept: int = 1
    gathering: dict[str, int] = field(default_factory=dict)  # unit -> its gather, under way
    whole: set[str] = field(default_factory=set)  # units whose parameters are there
    forward: list[str] = field(default_factory=list)  # units in the order in which their forwards ended
    ended: dict[str, list[int]] = field(
        default_factory=dict
    )  # unit -> the places in `forward` whose backward has not begun
    backward: set[str] = field(default_factory=set)  # units whose backward has begun, and has not ended
    scatters: list[int] = field(default_factory=list)
    scattering: list[int] = field(default_factory=list)  # those whose input is kept
    gate: int = BEGINNING  # what the streams of gathers wait for
    copied_out: int | None = None  # of the unit before, for which they wait from the next unit on

    def __post_init__(self) -> None:
        self.gate = self.timeline.place

    def play(self, step: Iterable[Sequence[Call] | At]) -> None:
        """Puts a step on the timeline: graphs, and hooks in the order in which they run."""
        hooks = {
            Hook.PRE_FORWARD: self.pre_forward,
            Hook.POST_FORWARD: self.post_forward,
            Hook.PRE_BACKWARD: self.pre_backward,
            Hook.POST_BACKWARD: self.post_backward,
        }
        for each in step:
            if isinstance(each, At):
                hooks[each.hook](self.units[each.unit])
            else:
                self.timeline.call(each)
        self.end()

    def gather(self, unit: Unit) -> None:
        """Begins a gather, unless the parameters are there or under way."""
        if unit.name in self.whole or unit.name in self.gathering:
            return
        part = unit.gathered // self.ranks
        begun = self.timeline.begin(ALL_GATHER, unit.gathered, self.ranks, after=self.gate, copied=part)
        self.gathering[unit.name] = begun

    def pre_forward(self, unit: Unit) -> None:
        self.gather(unit)
        if unit.name not in self.gathering:
            return
        if self.copied_out is not None:
            self.gate = self.copied_out
        self._copy_out(unit)
        self.copied_out = self.timeline.place

    def post_forward(self, unit: Unit) -> None:
        if unit.reshards:
            self.whole.discard(unit.name)
        self.ended.setdefault(unit.name, []).append(len(self.forward))
        self.forward.append(unit.name)

    def pre_backward(self, unit: Unit) -> None:
        if self.copied_out is not None:  # the end of the forward has the streams wait for its last copy
            self.gate, self.copied_out = self.copied_out, None
        self.gather(unit)
        if unit.name in self.gathering:
            self._copy_out(unit)
            self.gate = self.timeline.place
        self.backward.add(unit.name)
        place = self.ended[unit.name].pop() if self.ended.get(unit.name) else 0
        if place:
            self.gather(self.units[self.forward[place - 1]])

    def post_backward(self, unit: Unit) -> None:
        begun = unit.name in self.backward
        self.whole.discard(unit.name)
        self.backward.discard(unit.name)
        while len(self.scattering) >= self.kept:
            self.timeline.wait(self.scattering.pop(0))
        if not begun or not unit.scattered:
            return
        self.timeline.copy(unit.scattered)
        scatter = self.timeline.begin(REDUCE_SCATTER, unit.scattered, self.ranks)
        self.scatters.append(scatter)
        self.scattering.append(scatter)

    def end(self) -> None:
        """Units whose backward had no end scatter now; then all are waited for."""
        for name, unit in self.units.items():
            if name in self.backward:
                self.post_backward(unit)
        for number in self.scatters:
            self.timeline.wait(number)

    def _copy_out(self, unit: Unit) -> None:
        self.timeline.wait(self.gathering.pop(unit.name))
        self.timeline.copy(unit.gathered)
        self.whole.add(unit.name)
