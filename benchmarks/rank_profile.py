"""Collectives in the profile of a step: how long they run, how much of that nothing else does, and whether links or host are to blame.

A kernel that begins as soon as the host launches it has waited for nothing on the GPU: the host was not ahead. So a moment of a collective
beside which nothing runs is the host's if what computes next was not launched yet, or if the collective had begun as soon as it was launched.
Else what computes next was there and waited: the links are busy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Span = tuple[float, float]  # us, from its start to its end
MOST = 8  # collectives that are told one by one
SOON = 20.0  # us: longer after its launch nothing begins on an idle stream


@dataclass(frozen=True)
class Ran:
    """A kernel or a copy on the GPU, in us. `launched`: when the host began to launch it, if that is known."""

    name: str
    start: float
    end: float
    launched: float | None = None

    @property
    def is_collective(self) -> bool:
        return "nccl" in self.name.lower()

    @property
    def is_copy(self) -> bool:
        """Within the GPU's memory, as `copy_` between tensors that are alike does: no kernel, but the step waits for it as for one."""
        return "memcpy dtod" in self.name.lower()

    @property
    def computes(self) -> bool:
        name = self.name.lower()
        return not self.is_collective and (self.is_copy or ("memcpy" not in name and "memset" not in name))

    @property
    def at_once(self) -> bool:
        """Whether it began as soon as it was launched."""
        return self.launched is not None and self.start - self.launched < SOON


def ran_in(events: Iterable[Any]) -> list[Ran]:
    """The kernels and copies among the events of a profile, `profile.profiler.kineto_results.events()`."""
    found, launched = [], {}
    for event in events:
        name = event.name()
        if event.device_type().name == "CUDA":
            if event.duration_ns():
                found.append(event)
        elif name.startswith("cu"):  # calls of the runtime and of the driver, which a profile of the GPU alone has too
            launched[event.correlation_id()] = event.start_ns() / 1e3
    spans = [(event, event.start_ns() / 1e3, event.duration_ns() / 1e3) for event in found]
    return [Ran(e.name(), start, start + took, launched.get(e.correlation_id())) for e, start, took in spans]


def communication(ran: Sequence[Ran], gather: Callable[[Any], list[Any]]) -> dict[str, float]:
    """Of the second of two steps, in ms. `gather` gives what all ranks have given it. `exposed_ms`: the communication beside which nothing else
    runs on this rank; `beside_copies_ms`: beside which copies do, and no kernel; `host_late_ms`: of the exposed, the host's, if launches are
    known."""
    collectives = _of_second_step(ran)
    together, at_once = _together(collectives, gather)
    work = [each for each in ran if each.computes]
    exposed = _without(together, [(each.start, each.end) for each in work])
    bare = _without(together, [(each.start, each.end) for each in work if not each.is_copy])
    told = {
        "communication_ms": length(together) / 1e3,
        "exposed_ms": length(exposed) / 1e3,
        "beside_copies_ms": (length(bare) - length(exposed)) / 1e3,
        "late_ranks_ms": (length([(each.start, each.end) for each in collectives]) - length(together)) / 1e3,
    }
    if any(each.launched is not None for each in work):
        told["host_late_ms"] = (
            length(_host_late(exposed, work, [s for s, soon in zip(together, at_once) if soon])) / 1e3
        )
    return told


def most_exposed(ran: Sequence[Ran], gather: Callable[[Any], list[Any]]) -> list[dict[str, Any]]:
    """Of the second of two steps, the collectives of which most is exposed: their number in the order in which they begin, the name of the
    kernel, and in ms how long it took and how much of that nothing else ran beside."""
    collectives = _of_second_step(ran)
    together, _ = _together(collectives, gather)
    work = [(each.start, each.end) for each in ran if each.computes]
    told = [
        {
            "number": n,
            "kernel": each.name.partition("(")[0],
            "ms": length([span]) / 1e3,
            "exposed_ms": length(_without([span], work)) / 1e3,
        }
        for n, (each, span) in enumerate(zip(collectives, together))
    ]
    return sorted((each for each in told if each["exposed_ms"]), key=lambda each: -each["exposed_ms"])[:MOST]


def _of_second_step(ran: Sequence[Ran]) -> list[Ran]:
    collectives = sorted((each for each in ran if each.is_collective), key=lambda each: each.start)
    return collectives[len(collectives) // 2 :]


def _together(collectives: Sequence[Ran], gather: Callable[[Any], list[Any]]) -> tuple[list[Span], list[bool]]:
    """The time of each from when the last of its ranks has come, and whether that rank's began as soon as it was launched. A collective's kernel
    begins when its rank comes and ends with those of the others: the shortest of them has waited for nobody."""
    every = gather([(each.end - each.start, each.at_once) for each in collectives])
    if len({len(of_rank) for of_rank in every}) > 1:
        return [(each.start, each.end) for each in collectives], [each.at_once for each in collectives]
    last = [min(of_ranks) for of_ranks in zip(*every)]
    return [(each.end - took, each.end) for each, (took, _) in zip(collectives, last)], [soon for _, soon in last]


def _host_late(exposed: Sequence[Span], work: Sequence[Ran], late: Sequence[Span]) -> list[Span]:
    """The parts of `exposed` before what computes next is launched, and those of collectives that were launched `late`."""
    following = sorted(work, key=lambda each: each.start)
    found = [(max(a, start), min(b, end)) for a, b in exposed for start, end in late if start < b and a < end]
    place = 0
    for start, end in exposed:
        while place < len(following) and following[place].start < end:
            place += 1
        launched = following[place].launched if place < len(following) else None
        if launched is not None and launched > start:
            found.append((start, min(end, launched)))
    return found


def _without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of the union of `spans` that are in none of `others`."""
    found: list[Span] = []
    taken, place = _union(others), 0
    for start, end in _union(spans):
        while place and taken[place - 1][1] > start:
            place -= 1
        while place < len(taken) and taken[place][0] < end:
            if taken[place][0] > start:
                found.append((start, taken[place][0]))
            start = max(start, taken[place][1])
            place += 1
        if start < end:
            found.append((start, end))
    return found


def _union(spans: Iterable[Span]) -> list[Span]:
    """In order, none touching another."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[Span]) -> float:
    """Of the union of `spans`."""
    return sum(end - start for start, end in _union(spans))
