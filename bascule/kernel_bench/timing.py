"""How long a launch takes, on the memory that the program gives it, which is put back before each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from bascule.runtime.kernels.benchmarking import FLUSH

from ..dialect.interpreter.addresses import tensor_at

WARM_UPS, LEAST, MOST, SECONDS = (
    3,
    7,
    1000,
    0.2,
)  # launches that are not counted; those that are, where nobody says how many


@dataclass(frozen=True)
class Times:
    """Seconds of the launches that were measured."""

    seconds: Sequence[float]

    @property
    def median_us(self) -> float:
        return 1e6 * median(self.seconds)

    @property
    def min_us(self) -> float:
        return 1e6 * min(self.seconds)


class Memory:
    """What tensors hold that lie in memory of others, to be put back. Those that overlap are one range of bytes."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        ranges = sorted(_range(tensor) for tensor in tensors if tensor.numel())
        merged: list[list[int]] = []
        for start, end in ranges:
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        device = tensors[0].device if tensors else torch.device("cpu")
        self.bytes = [tensor_at(start, torch.uint8, [end - start], [1], device) for start, end in merged]
        self.held = [part.clone() for part in self.bytes]

    def restore(self) -> None:
        for part, held in zip(self.bytes, self.held):
            part.copy_(held)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of its first byte, and after its last."""
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize


def timed(run: Callable[[], None], memory: Memory, device: torch.device, repeat: int | None) -> Times:
    """Times launches by `run`: `repeat` of them, or as many as take `SECONDS`, `LEAST` to `MOST`. What is in `memory` is put back before each,
    and stays as one launch leaves it."""
    once = _on_gpu(device) if device.type == "cuda" else _on_cpu
    for _ in range(WARM_UPS):
        memory.restore()
        once(run)
    seconds: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(seconds) < (repeat or LEAST) or (repeat is None and len(seconds) < MOST and time.perf_counter() < end):
        memory.restore()
        seconds.append(once(run))
    return Times(seconds)


def _on_cpu(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _on_gpu(device: torch.device) -> Callable[[Callable[[], None]], float]:
    """Over a cold L2 cache, between two events of the current stream."""
    flush = torch.empty(FLUSH, dtype=torch.uint8, device=device)

    def once(run: Callable[[], None]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()  # takes the device longer than the host takes to issue what follows
        start.record()
        run()
        end.record()
        end.synchronize()
        return 1e-3 * start.elapsed_time(end)

    return once
