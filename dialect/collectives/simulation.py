"""A simulator of one rank: a stream that computes, and links on which one collective runs at a time. The other ranks are as fast."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .calls import Collectives


@dataclass(frozen=True)
class Times:
    """Seconds: of each op that computes, by number (0 for others), and of each collective by the number of its start."""

    ops: Sequence[float]
    collectives: dict[int, float]


@dataclass
class Prediction:
    """Seconds of a run: the `step` as a whole, its parts that compute, those that communicate, those in which it computes nothing since a
    collective is not done; `waited`: the same by the number of the start."""

    step: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    waited: dict[int, float] = field(default_factory=dict)

    @property
    def exposed(self) -> float:
        return sum(self.waited.values())


def predict(order: Iterable[int], found: Collectives, times: Times) -> Prediction:
    """The run of the ops in `order`."""
    told, links, done = Prediction(), 0.0, dict[int, float]()
    for number in order:
        if number in found.starts:
            links = done[number] = max(links, told.step) + times.collectives[number]
            told.communication += times.collectives[number]
        elif number in found.waits:
            start = found.waits[number]
            if done[start] > told.step:
                told.waited[start] = told.waited.get(start, 0.0) + done[start] - told.step
                told.step = done[start]
        else:
            told.step += times.ops[number]
            told.compute += times.ops[number]
    return told
