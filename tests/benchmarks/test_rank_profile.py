"""The exposed part of collectives in made-up profiles, and whose it is: the links', or the host's."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from benchmarks.rank_profile import Ran, communication, most_exposed, ran_in

EARLY = -1000.0


def told(*ran, others=()):
    """Of the second step: what is before its collectives is the first one's."""
    first = [
        Ran("ncclDevKernel_AllGather", EARLY - each.end, EARLY - each.start, EARLY)
        for each in ran
        if each.is_collective
    ]
    return communication([*first, *ran], lambda own: [own, *(other or own for other in others)])


def gather(start, end, launched=EARLY):
    return Ran("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage)", start, end, launched)


def kernel(start, end, launched=EARLY):
    return Ran("triton_0", start, end, launched)


def test_what_nothing_runs_beside_is_exposed():
    found = told(kernel(0, 50), gather(20, 100), kernel(60, 80), kernel(100, 150))
    assert found["communication_ms"] == pytest.approx(0.080)
    assert found["exposed_ms"] == pytest.approx(0.030)
    assert found["host_late_ms"] == 0


def test_what_computes_next_is_launched_late():
    """After 70 it is there, and waits for the links."""
    found = told(kernel(0, 50), gather(20, 100), kernel(100, 150, launched=70))
    assert found["exposed_ms"] == pytest.approx(0.050)
    assert found["host_late_ms"] == pytest.approx(0.020)


def test_a_collective_is_launched_late():
    """It begins as soon as it is launched, so that it was not in a queue; the kernel that waits for it is launched right after it."""
    found = told(kernel(0, 10), gather(50, 100, launched=43), kernel(100, 150, launched=55))
    assert (found["exposed_ms"], found["host_late_ms"]) == pytest.approx((0.050, 0.050))
    queued = told(kernel(0, 40), gather(50, 100, launched=20), kernel(100, 150, launched=25))
    assert (queued["exposed_ms"], queued["host_late_ms"]) == pytest.approx((0.050, 0))


def test_those_that_are_most_exposed():
    """The first is beside a kernel."""
    before = [gather(-900 + 20 * n, -890 + 20 * n) for n in range(3)]
    ran = [*before, kernel(0, 50), gather(10, 20), gather(50, 90), gather(100, 110)]
    told = most_exposed(ran, lambda own: [own])
    assert [(each["number"], each["ms"], each["exposed_ms"]) for each in told] == [(1, 0.04, 0.04), (2, 0.01, 0.01)]
    assert told[0]["kernel"] == "ncclDevKernel_AllGather_RING_LL"


def test_at_the_end_nothing_computes_next():
    found = told(kernel(0, 50), gather(20, 100))
    assert (found["exposed_ms"], found["host_late_ms"]) == pytest.approx((0.050, 0))


def test_another_rank_comes_late():
    """Its collective takes 30, of which this rank's waits 50 before; it began there as soon as it was launched."""
    found = told(kernel(0, 10), gather(20, 100), kernel(100, 150), others=([(30.0, True)],))
    assert found["late_ranks_ms"] == pytest.approx(0.050)
    assert (found["communication_ms"], found["exposed_ms"], found["host_late_ms"]) == pytest.approx(
        (0.030, 0.030, 0.030)
    )
    queued = told(kernel(0, 10), gather(20, 100), kernel(100, 150), others=([(30.0, False)],))
    assert queued["host_late_ms"] == 0


def test_copies_within_the_memory_are_work():
    """Those from and to the host are not."""
    copy, other = Ran("Memcpy DtoD (Device -> Device)", 50, 70, EARLY), Ran("Memcpy HtoD (Pageable -> Device)", 70, 90)
    found = told(kernel(0, 50), gather(20, 100), copy, other)
    assert (found["exposed_ms"], found["beside_copies_ms"]) == pytest.approx((0.030, 0.020))


def test_without_launches_nothing_is_said_of_the_host():
    assert "host_late_ms" not in told(kernel(0, 50, None), gather(20, 100, None))


@dataclass
class Event:
    """As PyTorch's `_KinetoEvent` is asked."""

    called: str
    began: int
    took: int
    correlation: int
    device: str = "CUDA"

    def name(self):
        return self.called

    def start_ns(self):
        return self.began

    def duration_ns(self):
        return self.took

    def correlation_id(self):
        return self.correlation

    def device_type(self):
        return SimpleNamespace(name=self.device)


def test_launches_are_found_by_their_correlation():
    events = [
        Event("cudaLaunchKernel", 1000, 4000, 7, "CPU"),
        Event("cuLaunchKernelEx", 9000, 4000, 8, "CPU"),
        Event("aten::mm", 0, 99000, 7, "CPU"),
        Event("triton_0", 20000, 5000, 8),
        Event("nccl", 30000, 5000, 7),
        Event("gone", 30000, 0, 7),
        Event("lone", 40000, 1000, 9),
    ]
    assert ran_in(events) == [Ran("triton_0", 20, 25, 9), Ran("nccl", 30, 35, 1), Ran("lone", 40, 41, None)]
