"""Training on several ranks, beside eager and Inductor: equal losses, step time, peak memory, first step, exposed communication.

    torchrun --nproc-per-node=2 -m benchmarks.ranks --json ranks.json
    torchrun --nproc-per-node=2 -m benchmarks.ranks --tiny --device cpu     # a check that all runs, by gloo

Ranks have batches of their own, those that split a model the same. All are of one size but for three steps after those that are timed.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from . import measure
from .kernels import CYCLES
from .rank_models import ALIKE, MODELS, SIZES, TINY, WAYS, Size
from .rank_profile import Ran, communication, most_exposed, ran_in

COMPILERS = ("eager", "inductor", "inductor_overlap", "bascule")
PROFILED = 9  # steps, one by one
AHEAD = 2  # steps' time for which the GPU is kept busy, for the host to launch one meanwhile
SPINS = "spin_kernel"  # what keeps it busy: nothing that a collective could be beside
TOLD_AHEAD = ("communication_ms", "exposed_ms", "host_late_ms", "exposed_ms_range")
UNEVEN = 3  # steps with batches of several sizes; their losses and the first step's are compared
MEASURED = {
    "step_ms": "step ms",
    "peak_mb": "peak MB",
    "first_step_s": "first step s",
    "communication_ms": "communication ms",
    "exposed_ms": "exposed ms",
    "host_late_ms": "of it the host's",
    "late_ranks_ms": "late ranks ms",
    "exposed_ahead_ms": "exposed, host ahead",
}
PREDICTED = {"communication_ms": "communication predicted", "exposed_ms": "exposed predicted"}
WITH_HOST = {"communication_ms": "communication with the host", "exposed_ms": "exposed with the host"}
TOLERANCE = {torch.bfloat16: 2e-2, torch.float32: 1e-4}  # of a loss, relative


def main() -> None:
    parser = parser_of(__doc__, COMPILERS)
    parser.add_argument(
        "--uneven", help="compilers that take steps of other sizes too, after those that are timed; all, unless given"
    )
    parser.add_argument("--steps", type=int, default=20, help="that are measured")
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    start_group(arguments.device)
    rows: list[dict[str, Any]] = []
    compilers = arguments.compilers.split(",")
    uneven = (arguments.uneven or arguments.compilers).split(",")
    for model in arguments.models.split(","):
        size = TINY if arguments.tiny else SIZES[model]
        for way in arguments.ways.split(","):
            row: dict[str, Any] = {"case": f"{model}, {way}", "ranks": dist.get_world_size()}
            for compiler in compilers:
                others = UNEVEN if compiler in uneven else 0
                row[compiler] = measured(model, size, way, compiler, arguments.device, arguments.steps, others)
                _compare(row, compiler, size)
                if rank == 0:
                    print(f"{row['case']}: {compiler}: {row[compiler]}", flush=True)
            rows.append(row)
            if rank == 0:  # what is measured stays, if a later way does not end
                measure.save("ranks", rows, arguments.json, device=arguments.device)
    if rank == 0:
        _print(rows, compilers)
    dist.destroy_process_group()


def parser_of(description: str | None, compilers: Sequence[str]) -> argparse.ArgumentParser:
    """Of the models, the ways, the compilers, and where they run."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--compilers", default=",".join(compilers))
    parser.add_argument("--tiny", action="store_true", help="models of two small layers")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", help="a file for the result, which rank 0 writes")
    return parser


def start_group(device: str) -> None:
    """The group of all ranks that torchrun started, over NCCL with a GPU each, or gloo."""
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    else:
        dist.init_process_group("gloo")


def measured(
    model: str, size: Size, way: str, compiler: str, device: str, steps: int, uneven: int = UNEVEN
) -> dict[str, Any]:
    """One compiler's numbers on this rank, those of times and memory the largest of all ranks; an error, where it raises one here. `uneven`
    steps with batches of other sizes follow those that are timed."""
    from bascule.reporting.counters import counters, reset_counters

    torch._dynamo.reset()
    reset_counters()
    gc.collect()  # the model before is in cycles, and counts to no other's peak
    torch.manual_seed(0)
    whole = MODELS[model](size).to(device, size.dtype)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    try:
        with settings(compiler):
            call = WAYS[way](whole, mesh, compiled(compiler))
            step = one_step(call, whole)
            ids = batch(size, way, device, 0)
            began = time.perf_counter()
            losses = [step(ids)]
            told = {"first_step_s": _most(time.perf_counter() - began, device)}
            told |= _times(step, ids, steps, device)
            if dist.get_rank() == 0:  # batches of other sizes may be compiled for minutes
                print(f"{model}, {way}: {compiler}: timed: {told}", flush=True)
            predicted = dict(counters().get("collectives", {}))  # of what was timed
            one_more = lambda: step(ids, read=False)  # noqa: E731
            # Every compiler takes as many steps: a prediction runs two.
            whole_step = _predicted(one_more, call) if compiler == "bascule" else (one_more(), one_more())
            # Other sizes are made here alone: they count to no peak.
            told["losses"] = losses + [step(batch(size, way, device, number)) for number in range(1, uneven + 1)]
    except Exception as error:  # one combination that fails does not end the others, where all ranks fail alike
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"}
    if compiler == "bascule":
        told["predicted"] = predicted
        told["predicted_step"] = whole_step
        told["fallbacks"] = dict(counters().get("fallbacks", {}))
    return told


def _predicted(step: Callable[[], Any], call: Callable) -> dict[str, Any]:
    """The prediction for the same step, in ms: its communication, and the part of that beside which nothing else runs."""
    from bascule import predict_collectives

    told = predict_collectives(step, call)
    if dist.get_rank() == 0:
        print(told, flush=True)
    names = {
        "step": "step_ms",
        "communication": "communication_ms",
        "exposed": "exposed_ms",
        "beside_copies": "beside_copies_ms",
    }
    return {
        "way": told.way,
        "collectives": len(told.order),
        "as_begun": told.is_as_begun,
        **{ms: 1e3 * getattr(told, name) for name, ms in names.items()},
        "with_host": told.with_host and {f"{name}_ms": 1e3 * value for name, value in vars(told.with_host).items()},
    }


def compiled(compiler: str) -> Callable[[Any], Any]:
    if compiler == "eager":
        return lambda function: function
    backend = compiler.partition("_")[0]
    options = {"options": {"on_error": "raise"}} if backend == "bascule" else {}
    return lambda function: torch.compile(function, backend=backend, **options)


def settings(compiler: str) -> Any:
    """With `inductor_overlap`, the passes of Inductor that are off unless asked for, as far as this version has them."""
    from torch._inductor import config

    if compiler != "inductor_overlap":
        return patch.dict({}, {})
    known = config.get_config_copy()
    wanted = {
        "reorder_for_compute_comm_overlap": True,
        "aten_distributed_optimizations.enable_overlap_scheduling": True,
        "aten_distributed_optimizations.collective_bucketing": True,
    }
    return config.patch({name: value for name, value in wanted.items() if name in known})


def one_step(call: Callable, model: torch.nn.Module) -> Callable[[torch.Tensor], float]:
    """A step of training, with the loss as a number where that is asked for."""
    # Parameters one by one: those of one model may be on one rank and on several.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def step(ids: torch.Tensor, read: bool = True) -> float:
        loss = call(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item() if read else 0.0

    return step


def batch(size: Size, way: str, device: str, number: int) -> torch.Tensor:
    """The first batch is whole on all ranks, the others have as many rows as the rank and the step say."""
    rank = dist.get_rank() // (ALIKE.get(way, 1) or dist.get_world_size())
    rows = size.batch - ((rank + number) % 2 if number else 0)
    generator = torch.Generator().manual_seed(100 * number + rank)
    return torch.randint(size.vocabulary, (rows, size.length), generator=generator).to(device)


def _times(step: Callable, ids: torch.Tensor, steps: int, device: str) -> dict[str, Any]:
    for _ in range(3):
        step(ids, read=False)
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    dist.barrier()
    times = timed(lambda: step(ids, read=False), steps, device)
    told: dict[str, Any] = {"step_ms": 1e3 * _most(statistics.median(times), device)}
    if device == "cuda":
        told["peak_mb"] = _most(torch.cuda.max_memory_allocated() / 1e6, device)
        told |= _communication(step, ids) | _communication_ahead(step, ids, told["step_ms"])
    return told


def timed(step: Callable[[], Any], steps: int, device: str) -> list[float]:
    """Seconds of steps one by one on this rank."""
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = []
    for _ in range(steps):
        synchronize()
        began = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - began)
    return times


def _communication(step: Callable, ids: torch.Tensor, busy: int = 0) -> dict[str, Any]:
    """Of a step after another on this rank, in ms: collectives from when the last of their ranks has come, the part of them beside which nothing
    else runs, how much of that is since the host was late, and what this rank waits for others before; medians, and of the part the least and
    the most. Beside a host that is loaded the least is what the links do; what is the host's is not predicted. `busy`: see `_profiled`."""
    ran = [_profiled(step, ids, busy) for _ in range(PROFILED)]
    told = [communication(each, _gathered) for each in ran]
    exposed = [one["exposed_ms"] for one in told]
    medians = {name: statistics.median(one[name] for one in told if name in one) for name in told[0]}
    if "host_late_ms" in medians:
        medians["exposed_by_links_ms"] = statistics.median(
            one["exposed_ms"] - one.get("host_late_ms", 0.0) for one in told
        )
    least = ran[_gathered(exposed.index(min(exposed)))[0]]  # the first rank's, for all
    return {**medians, "exposed_ms_range": [min(exposed), max(exposed)], "most_exposed": most_exposed(least, _gathered)}


def _communication_ahead(step: Callable, ids: torch.Tensor, step_ms: float) -> dict[str, Any]:
    """The same where the host is ahead on every machine: before the second of two steps the GPU is kept busy until that is launched. What is
    exposed then is what links and the order of kernels leave."""
    told = _communication(step, ids, int(AHEAD * step_ms * CYCLES))
    return {name.replace("_ms", "_ahead_ms"): told[name] for name in TOLD_AHEAD if name in told}


def _profiled(step: Callable, ids: torch.Tensor, busy: int = 0) -> list[Ran]:
    """The kernels and copies of two steps: the second is one of many in a row, and ranks that profilers started apart have met. `busy`: for so
    many cycles the GPU does nothing of it. A driver takes about a thousand launches ahead, more than those of a step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step(ids, read=False)
        if busy:
            torch.cuda._sleep(busy)
        step(ids, read=False)
        torch.cuda.synchronize()
    events = found.profiler.kineto_results.events()  # type: ignore[union-attr]
    return [each for each in ran_in(events) if SPINS not in each.name]


def _gathered(own: Any) -> list[Any]:
    """The gifts of all ranks."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    return every


def _most(value: float, device: str) -> float:
    """The largest of all ranks."""
    told = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return told.item()


def _compare(row: dict[str, Any], compiler: str, size: Size) -> None:
    """Notes how far the losses are from eager's, relative, on this rank."""
    eager, told = row.get("eager", {}).get("losses"), row[compiler].get("losses")
    if eager and told:
        row[compiler]["off"] = max(abs(a - b) / abs(a) for a, b in zip(eager, told))
        row[compiler]["equal"] = row[compiler]["off"] <= TOLERANCE[size.dtype]


def _print(rows: list[dict[str, Any]], compilers: list[str]) -> None:
    table = []
    for row in rows:
        for compiler in compilers:
            told = row[compiler]
            numbers = [told.get(key) for key in MEASURED]
            predicted = told.get("predicted_step") or {}
            numbers += [predicted.get(key) for key in PREDICTED]
            numbers += [(predicted.get("with_host") or {}).get(key) for key in WITH_HOST]
            shown = ["" if number is None else f"{number:.2f}" for number in numbers]
            table.append([row["case"], compiler, *shown, told.get("error", str(told.get("equal", "")))])
    names = ["case", "compiler", *MEASURED.values(), *PREDICTED.values(), *WITH_HOST.values(), "equal to eager"]
    measure.print_table(names, table)


if __name__ == "__main__":
    main()
    # gloo's threads outlive the group. One that lets go of a last tensor takes the interpreter's lock, and aborts a process that is at its end.
    sys.stdout.flush()
    os._exit(0)
