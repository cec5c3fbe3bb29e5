"""Steps of several compilers in turns on the same ranks, round after round: whatever else loads the hosts is the same for all. Each compiler has
a model of its own in memory; all are compiled before the first round, and a compilation within the rounds is an error.

    torchrun --nproc-per-node=4 -m benchmarks.rank_rounds [--models NAME,...] [--ways NAME,...] [--json FILE]
    torchrun --nproc-per-node=2 -m benchmarks.rank_rounds --tiny --device cpu     # a check that all runs, by gloo
"""

import gc
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._dynamo import config as dynamo_config
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh

from . import measure
from .rank_models import MODELS, SIZES, TINY, WAYS, Size
from .ranks import batch, compiled, one_step, parser_of, settings, start_group, timed

COMPILERS = ("inductor_overlap", "bascule")
WARM = 6  # steps of each before the rounds, the first of which compiles
LIMIT = 64  # compiled graphs of one function, those of all compilers

Step = Callable[[], None]


def in_turns(model: str, size: Size, way: str, compilers: list[str], device: str, rounds: int, steps: int) -> dict:
    """For each compiler the median of its steps in ms, each that of the slowest rank, and the same of each round; and for each but the last how
    many times its step is the last one's, the median of rounds."""
    torch._dynamo.reset()
    gc.collect()
    made = {compiler: _made(model, size, way, compiler, device) for compiler in compilers}
    graphs = counters["stats"]["unique_graphs"]
    times: dict[str, list[float]] = {compiler: [] for compiler in compilers}
    for _ in range(rounds):
        for compiler, step in made.items():
            times[compiler].append(statistics.median(_times(step, steps, device)))
    if counters["stats"]["unique_graphs"] != graphs:
        raise RuntimeError(f"{model}, {way}: something was compiled between rounds")
    row: dict[str, Any] = {"case": f"{model}, {way}", "ranks": dist.get_world_size()}
    last = compilers[-1]
    for compiler in compilers:
        ratios = [other / own for other, own in zip(times[compiler], times[last])]
        row[compiler] = {"step_ms": statistics.median(times[compiler]), "rounds_ms": times[compiler]}
        row[compiler] |= {f"of_{last}": statistics.median(ratios)} if compiler != last else {}
    return row


def _made(model: str, size: Size, way: str, compiler: str, device: str) -> Step:
    """A step of training of a new model, compiled."""
    torch.manual_seed(0)
    whole = MODELS[model](size).to(device, size.dtype)
    with settings(compiler):
        call = WAYS[way](whole, init_device_mesh(device, (dist.get_world_size(),)), compiled(compiler))
        step, ids = one_step(call, whole), batch(size, way, device, 0)
        for _ in range(WARM):
            step(ids, read=False)
    if dist.get_rank() == 0:
        print(f"{model}, {way}: {compiler} is compiled", flush=True)
    return lambda: step(ids, read=False)


def _times(step: Step, steps: int, device: str) -> list[float]:
    """Milliseconds of steps one by one, each of the rank that takes longest."""
    dist.barrier()
    step()  # after another's, whose memory and caches it finds
    most = torch.tensor([1e3 * seconds for seconds in timed(step, steps, device)], dtype=torch.float64, device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return most.tolist()


def main() -> None:
    parser = parser_of(__doc__, COMPILERS)  # the last is what others are compared with
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8, help="of a round, of each compiler")
    arguments = parser.parse_args()
    start_group(arguments.device)
    rows, compilers = list[dict](), arguments.compilers.split(",")
    for model in arguments.models.split(","):
        size = TINY if arguments.tiny else SIZES[model]
        for way in arguments.ways.split(","):
            with dynamo_config.patch(recompile_limit=LIMIT):
                row = in_turns(model, size, way, compilers, arguments.device, arguments.rounds, arguments.steps)
            rows.append(row)
            if dist.get_rank() == 0:
                print(row, flush=True)
                measure.save("steps of ranks in turns", rows, arguments.json, device=arguments.device)
    if dist.get_rank() == 0:
        _print(rows, compilers)
    dist.destroy_process_group()


def _print(rows: list[dict[str, Any]], compilers: list[str]) -> None:
    last = compilers[-1]
    names = ["case", "ranks", *(f"{name} ms" for name in compilers), *(f"{name} / {last}" for name in compilers[:-1])]
    table = [
        [
            row["case"],
            str(row["ranks"]),
            *(f"{row[name]['step_ms']:.2f}" for name in compilers),
            *(f"{row[name][f'of_{last}']:.3f}" for name in compilers[:-1]),
        ]
        for row in rows
    ]
    measure.print_table(names, table)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads outlive the group, see `ranks`
