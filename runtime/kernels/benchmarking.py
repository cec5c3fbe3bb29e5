"""How long compiled kernels take on a device, over a cold L2 cache and on memory of their own. Synchronises with the device."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from bascule.compat.operators.dispatch import without_dispatch_modes

from .cuda_driver import Function, Plan, current_stream

ROUNDS, FIRST_ROUNDS = 15, 4  # of all, and of those in which nobody has dropped out
HOPELESS = 1.3  # times the fastest: what is dropped
FLUSH = 256 << 20  # bytes: several times an L2


@dataclass(frozen=True)
class Scratch:
    """Memory for an argument of a kernel: `elements` of `dtype`. Integers are uniform in [0, `below`), as places in a tensor are."""

    dtype: torch.dtype
    elements: int
    below: int

    def tensor(self, generator: torch.Generator) -> torch.Tensor:
        x = torch.empty(self.elements, dtype=self.dtype, device=generator.device)
        if self.dtype.is_floating_point and self.dtype.itemsize > 1:
            return x.uniform_(0.5, 1.5, generator=generator)
        if self.dtype.is_floating_point or self.dtype == torch.bool or self.dtype.itemsize == 1:
            x.view(torch.uint8).random_(0, 2, generator=generator)
            return x
        signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(
            self.dtype, self.dtype
        )
        x.view(signed).random_(0, min(max(2, self.below), torch.iinfo(signed).max), generator=generator)
        return x


def times_of(
    kernels: Mapping[str, tuple[Function, int]], arguments: Sequence[Scratch], device: int
) -> dict[str, float]:
    """Median milliseconds of each of `kernels`, (function, number of programs), which take `arguments`; without those much slower than one.

    They take turns, so that a clock that drifts is fair to all. Raises `torch.OutOfMemoryError` and `DriverError`.
    """
    with without_dispatch_modes(), torch.no_grad(), torch.cuda.device(device):
        generator = torch.Generator(torch.device("cuda", device)).manual_seed(0)
        buffers = [argument.tensor(generator) for argument in arguments]
        slots = [buffer.data_ptr() for buffer in buffers]
        places = [("slot", number, 0, "ptr") for number in range(len(slots))]
        plans = {name: Plan([(function, programs, places)]) for name, (function, programs) in kernels.items()}
        for plan in plans.values():
            plan(current_stream(device), *slots)
        return times_in_turns(
            {name: partial(plan, current_stream(device), *slots) for name, plan in plans.items()}, device
        )


def times_in_turns(calls: Mapping[str, Callable[[], object]], device: int) -> dict[str, float]:
    """Median milliseconds that the device takes for each of `calls`, over a cold L2; without those much slower than one. Each was called before.
    Raises what they raise."""
    with without_dispatch_modes(), torch.no_grad(), torch.cuda.device(device):
        flush = torch.empty(FLUSH, dtype=torch.uint8, device=torch.device("cuda", device))
        times: dict[str, list[float]] = {name: [] for name in calls}
        running = dict(calls)
        for number in range(ROUNDS):
            for name, call in running.items():
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flush.zero_()  # takes the device longer than the host takes to issue what follows
                start.record()
                call()
                end.record()
                end.synchronize()
                times[name].append(start.elapsed_time(end))
            if number + 1 == FIRST_ROUNDS:
                best = min(map(statistics.median, times.values()))
                running = {
                    name: call for name, call in running.items() if statistics.median(times[name]) <= HOPELESS * best
                }
        return {name: statistics.median(times[name]) for name in running}
