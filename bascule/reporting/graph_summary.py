"""The summary of a compiled module, for `explain` and the counters."""

from dataclasses import asdict, dataclass
from typing import Any

from bascule.runtime.modules.profiled import range_of

from ..dialect.remarks.record import Remark
from .counters import count


@dataclass(frozen=True)
class Kernel:
    """A kernel function."""

    name: str
    calls: int  # launches of it a run
    domain: str  # "1024 x 8192", the parallel ranges
    operators: tuple[str, ...]  # the ATen operators it computes, in order
    tuned: str | None = None  # with the option `max_autotune` on a GPU: what was measured


@dataclass(frozen=True)
class AtenCall:
    """An operator that went to ATen."""

    operator: str  # "aten.mm.default"
    calls: int
    reason: str


@dataclass(frozen=True)
class Memory:
    """The bytes of intermediates, as `plan-memory` left them; expressions of the symbols where sizes are dynamic."""

    asked: str  # of all buffers, had each its own
    arena: str  # of the arena that they share
    live: str  # of the largest set of static buffers that is needed at one time: the least an arena can have

    def __str__(self) -> str:
        asked, arena, live = map(grouped, (self.asked, self.arena, self.live))
        return f"an arena of {arena} bytes for {asked} bytes of intermediates, {live} live at one time"


@dataclass(frozen=True)
class Overlap:
    """Seconds of a run of a graph with collectives, as `overlap-collectives` predicts them; `_before`: without that pass."""

    step: float
    compute: float
    communication: float
    exposed: float  # the part of the communication beside which nothing is computed
    step_before: float
    exposed_before: float

    def __str__(self) -> str:
        return (
            f"{1e3 * self.communication:.3f} ms of communication, {1e3 * self.exposed:.3f} ms exposed "
            f"({1e3 * self.exposed_before:.3f} ms before they were moved), of a step of {1e3 * self.step:.3f} ms, as simulated"
        )


@dataclass(frozen=True)
class HostCopies:
    """`bytes` that a graph copies to the host, or back, since a memory budget keeps them there; seconds as `overlap-host-copies` predicts
    them."""

    bytes: int
    seconds: float
    exposed: float  # the part beside which nothing is computed

    def __str__(self) -> str:
        return (
            f"{grouped(str(self.bytes))} bytes on the host between forward and backward, {1e3 * self.seconds:.3f} ms of copies, "
            f"{1e3 * self.exposed:.3f} ms exposed, as simulated"
        )


_calls: dict[str, tuple[tuple[Any, ...], ...]] = {}


def calls_named(name: str) -> tuple[tuple[Any, ...], ...] | None:
    """The calls of a graph of this process, by the name of its range in `torch.profiler`; None of what has none."""
    return _calls.get(name)


def grouped(number: str) -> str:
    """A number with commas between its thousands; an expression as it is."""
    return f"{int(number):,}" if number.isdigit() else number


@dataclass(frozen=True)
class Summary:
    """A compiled graph as `explain` and the counters tell of it."""

    kernels: tuple[Kernel, ...]
    aten: tuple[AtenCall, ...]
    memory: Memory | None
    remarks: tuple[Remark, ...]
    runs: int
    assertions: int = 0  # about elements, which an operator of ATen's makes a run: it computes nothing
    overlap: Overlap | None = None  # of a graph with collectives
    copies: HostCopies | None = None  # of a graph with copies to the host, or back
    calls: tuple[
        tuple[Any, ...], ...
    ] = ()  # what each takes on a GPU, as `dialect/collectives/timeline.py` has it plain

    @property
    def launches(self) -> int:
        """Launches of kernels a run."""
        return sum(kernel.calls for kernel in self.kernels)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"remarks": [remark.to_json() for remark in self.remarks]}

    @staticmethod
    def from_json(told: dict[str, Any]) -> "Summary":
        return Summary(
            tuple(Kernel(**{**kernel, "operators": tuple(kernel["operators"])}) for kernel in told["kernels"]),
            tuple(AtenCall(**call) for call in told["aten"]),
            told["memory"] and Memory(**told["memory"]),
            tuple(map(Remark.from_json, told["remarks"])),
            told["runs"],
            told["assertions"],
            told["overlap"] and Overlap(**told["overlap"]),
            told["copies"] and HostCopies(**told["copies"]),
            tuple(map(tuple, told["calls"])),
        )


def count_summary(summary: Summary, wrapper: str | None) -> None:
    """Counts a compiled graph and what a run of it does, and has `calls_named` know the module `wrapper` that runs it."""
    if wrapper is not None:
        _calls[range_of(wrapper)] = summary.calls
    count("graphs", "compiled")
    count("kernels", "launches", summary.launches)
    count("kernels", "distinct", len(summary.kernels))
    if summary.assertions:
        count("kernels", "assertions", summary.assertions)
    if summary.overlap is not None:
        for name in ("communication", "exposed", "exposed_before"):
            count("collectives", f"{name} predicted, ns", round(1e9 * getattr(summary.overlap, name)))
    for call in summary.aten:
        count("aten", f"{call.operator}: {call.reason}", call.calls)
