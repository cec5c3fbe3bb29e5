"""Seconds that collectives take alone by their bytes, in calls in a row. `dialect/machines/nvlink.toml` has what they take in steps of training.

torchrun --nproc-per-node=2 -m benchmarks.links --json links.json
torchrun --nproc-per-node=2 -m benchmarks.links --device cpu --largest 65536     # a check that it runs, by gloo
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import measure

SMALLEST, LARGEST, STEP = 1 << 10, 1 << 29, 4  # bytes of the whole tensor, and how many times as large the next one is
ROUNDS, TURN = 7, 10  # of a measurement; calls in each
# Bytes, at most and at least, of what takes the latency alone, and the bandwidth's time.
SMALL, LARGE = 1 << 14, 1 << 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes of a tensor")
    parser.add_argument("--json", help="a file for the result, which rank 0 writes")
    arguments = parser.parse_args()
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    rows, size = [], SMALLEST
    while size <= arguments.largest:
        rows.append({"bytes": size, **{name: _seconds(call, size, arguments.device) for name, call in CALLS.items()}})
        size *= STEP
    if dist.get_rank() == 0:
        shown = [[str(row["bytes"]), *(f"{1e6 * row[name]:.1f}" for name in CALLS)] for row in rows]
        measure.print_table(["bytes", *(f"{name}, us" for name in CALLS)], shown)
        if arguments.largest >= LARGE:
            latency, bandwidth, passes = fit(rows, dist.get_world_size())
            print(f"latency {latency:.3g} s, bandwidth {bandwidth:.3g} bytes/s, an all-reduce is {passes:.2f} gathers")
        measure.save("links", rows, arguments.json, device=arguments.device)
    dist.destroy_process_group()


def _all_reduce(whole: torch.Tensor, part: torch.Tensor) -> None:
    dist.all_reduce(whole)


def _all_gather(whole: torch.Tensor, part: torch.Tensor) -> None:
    dist.all_gather_into_tensor(whole, part)


def _reduce_scatter(whole: torch.Tensor, part: torch.Tensor) -> None:
    dist.reduce_scatter_tensor(part, whole)


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], None]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
}


def fit(rows: list[dict[str, Any]], ranks: int) -> tuple[float, float, float]:
    """Latency in s, bytes/s over the links of a rank, and how many gathers an all-reduce is; as `dialect/collectives/costs.py` counts them."""
    latency = statistics.median(row[name] for row in rows if row["bytes"] <= SMALL for name in CALLS)
    large = [row for row in rows if row["bytes"] >= LARGE]
    ones = ("all_gather_into_tensor", "reduce_scatter_tensor")
    rates = [(1 - 1 / ranks) * row["bytes"] / (row[name] - latency) for row in large for name in ones]
    bandwidth = statistics.median(rates)
    passes = [(row["all_reduce"] - latency) / ((1 - 1 / ranks) * row["bytes"] / bandwidth) for row in large]
    return latency, bandwidth, statistics.median(passes)


def _seconds(call: Callable[[torch.Tensor, torch.Tensor], None], size: int, device: str) -> float:
    """Of one collective; the slowest rank's."""
    whole = torch.zeros(size // 2, dtype=torch.bfloat16, device=device)
    part = torch.zeros(size // 2 // dist.get_world_size(), dtype=torch.bfloat16, device=device)
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = []
    for _ in range(ROUNDS + 1):
        synchronize()
        dist.barrier()
        synchronize()
        began = time.perf_counter()
        for _ in range(TURN):
            call(whole, part)
        synchronize()
        times.append((time.perf_counter() - began) / TURN)
    told = torch.tensor(statistics.median(times[1:]), dtype=torch.float64, device=device)
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return told.item()


if __name__ == "__main__":
    main()
