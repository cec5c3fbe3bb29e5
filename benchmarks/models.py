"""Training steps of small models on the CPU, side by side. On a GPU: see `cuda_models`.

python -m benchmarks.models --what steps      milliseconds of a step, after warming up
python -m benchmarks.models --what first      seconds of the first step in a fresh process, with empty caches
python -m benchmarks.models --what warm       the same where another process has filled the caches, over tracing by Dynamo alone
python -m benchmarks.models --what memory     MiB that a step allocates at its peak, gradients included
    [--only NAME,NAME] [--seconds S] [--repeats N] [--backends A,B] [--json FILE] [--clock cpu] [--layers N]
python -m benchmarks.models --device cuda [--only NAME,NAME] [--limit S] [--json FILE] [--backends eager,inductor,bascule] [--fill]
python -m benchmarks.models --device cuda --what first|warm [--only NAME,NAME] [--repeats N] [--backends A,B] [--json FILE]

`bascule-cached` and `inductor-cached` among the backends are these in a process that finds their disk caches filled (on a GPU also
`bascule-cudagraphs-cached` and `inductor-cudagraphs-cached`); `bascule-tiered` runs PyTorch's operators while kernels are compiled; `dynamo` is
Dynamo alone, which runs what it has captured operator by operator.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from .measure import FILLING, geometric_mean, interleaved, is_asked_for, print_table, save
from .memory import peak_bytes

CACHED = {
    f"{backend}-cached": backend for backend in ("bascule", "inductor", "bascule-cudagraphs", "inductor-cudagraphs")
}
DYNAMO = "dynamo"
TIERED = "bascule-tiered"


@dataclass(frozen=True)
class Table:
    """`base`: the backend that the others are divided by, or, where `speed`, that is divided by them."""

    unit: str
    base: str
    backends: str
    speed: bool = False


TABLES = {
    "steps": Table("ms", "eager", "eager,aot_eager,inductor,bascule", speed=True),
    "first": Table("s", "aot_eager", "aot_eager,inductor,bascule,bascule-cached"),
    "warm": Table("s", DYNAMO, f"{DYNAMO},inductor-cached,bascule-cached"),
    "memory": Table("MiB", "inductor", "inductor,eager,bascule"),
}


STARTS = ("first", "warm")  # tables of first steps
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def compiled(model: torch.nn.Module, backend: str):
    if backend == "eager":
        return model
    if backend == TIERED:
        return torch.compile(model, backend="bascule", mode="tiered")
    name = "eager" if backend == DYNAMO else CACHED.get(backend, backend)
    return torch.compile(model, backend=name, options={"on_error": "raise"} if name == "bascule" else None)


def child(name: str, backend: str, what: str, clock: Callable[[], float], layers: int | None) -> None:
    """In a fresh process: prints the seconds of the first step, or the peak MiB of the third."""
    from .model_cases import CASES, MEASURED, build, training_step

    size = replace(MEASURED, layers=layers or MEASURED.layers)
    model, inputs = build(next(case for case in CASES if case.name == name), size)
    start = clock()
    call = compiled(model, backend)
    training_step(call, model, inputs)
    if what in STARTS:
        print(clock() - start)
        return
    training_step(call, model, inputs)
    model.zero_grad(set_to_none=True)
    if backend == "bascule":
        from bascule.runtime import release_arenas

        release_arenas()  # what a call keeps for the next is counted in the step that allocates it
    print(peak_bytes(lambda: training_step(call, model, inputs)) / 2**20)


def child_on_gpu(name: str, backend: str, clock: Callable[[], float]) -> None:
    """In a fresh process: prints the seconds of the first step, until the GPU has done it."""
    from .cuda_model_cases import CASES
    from .cuda_models import compiled as compiled_for_gpu
    from .cuda_models import reference, step_of

    torch.set_float32_matmul_precision("high")
    case = next(case for case in CASES if case.name == name)
    model, call = case.make()
    reference(
        case, model, call
    )  # turns buffers to bf16 where parameters are: what other processes compile, which find these caches
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    start = clock()
    target = compiled(model, DYNAMO) if backend == DYNAMO else compiled_for_gpu(model, CACHED.get(backend, backend))
    step_of(case, model, call, target)()
    torch.cuda.synchronize()
    print(clock() - start)


def in_fresh_process(name: str, backend: str, caches: str, how: list[str]) -> float:
    """Runs `child` in a fresh process, with the arguments `how`; returns the number that it prints. Compilers cache in the folder `caches`,
    where only cached backends find it again."""
    command = [sys.executable, "-m", "benchmarks.models", "--child", name, "--backends", backend, *how]
    kept = os.path.join(caches, backend)
    places = {
        "TORCHINDUCTOR_CACHE_DIR": kept if backend in CACHED else tempfile.mkdtemp(dir=caches),
        "BASCULE_CACHE_DIR": kept if backend in CACHED else "",
    }
    environment = {**os.environ, **places}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    out = subprocess.run(command, capture_output=True, text=True, env=environment)
    if out.returncode:
        raise RuntimeError(f"{name} with {backend}:\n{out.stderr[-3000:]}")
    return float(out.stdout.split()[-1])


def measure_children(names: list[str], backends: list[str], repeats: int, how: list[str]) -> list[dict]:
    """Medians of `repeats` processes a backend, in turns, once other processes have filled the caches. `how`: arguments of each."""
    rows = []
    with tempfile.TemporaryDirectory() as caches:
        folders = {name: tempfile.mkdtemp(dir=caches) for name in names}

        def run(name: str, backend: str) -> float:
            return in_fresh_process(name, backend, folders[name], how)

        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // FILLING)) as threads:
            cached = [(name, backend) for name in names for backend in CACHED.keys() & set(backends)]
            list(threads.map(lambda pair: run(*pair), cached))
        for name in names:
            found: dict[str, list[float]] = {backend: [] for backend in backends}
            for _ in range(repeats):
                for backend, values in found.items():
                    values.append(run(name, backend))
            rows.append({"model": name, **{backend: statistics.median(values) for backend, values in found.items()}})
            print(f"  {rows[-1]}", file=sys.stderr)
    return rows


def measure_steps(names: list[str], backends: list[str], seconds: float) -> list[dict]:
    """Medians, in milliseconds; the backends' steps take turns."""
    from .model_cases import CASES, build, training_step

    rows = []
    for case in (case for case in CASES if case.name in names):
        torch._dynamo.reset()
        variants = {}
        for backend in backends:
            model, inputs = build(case)
            call = compiled(model, backend)
            variants[backend] = lambda call=call, model=model, inputs=inputs: training_step(call, model, inputs)
            for _ in range(3):  # a second compile, where shapes turn dynamic, is no part of a step
                variants[backend]()
        medians = interleaved(variants, seconds)
        rows.append({"model": case.name, **{b: medians[b] * 1e3 for b in backends}})
        print(f"  {rows[-1]}", file=sys.stderr)
    return rows


def show(rows: list[dict], backends: list[str], table: Table) -> None:
    others = [b for b in backends if b != table.base] if table.base in backends else []

    def ratio(row: dict, backend: str) -> float:
        return row[table.base] / row[backend] if table.speed else row[backend] / row[table.base]

    lines = [
        [row["model"], *(f"{row[b]:.2f}" for b in backends), *(f"{ratio(row, b):.2f}" for b in others)] for row in rows
    ]
    means = [f"{geometric_mean([ratio(row, b) for row in rows]):.2f}" for b in others]
    lines.append(["geometric mean", *[""] * len(backends), *means])
    named = [f"{table.base} / {b}" if table.speed else f"{b} / {table.base}" for b in others]
    print_table(["model", *(f"{b} {table.unit}" for b in backends), *named], lines)


def models_on(device: str) -> list[str]:
    """The models' names."""
    if device == "cuda":
        from .cuda_model_cases import CASES as found
    else:
        from .model_cases import CASES as found
    return [case.name for case in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="models with this in their names, or one of several between commas")
    parser.add_argument("--seconds", type=float, default=3.0, help="steps: for how long each backend is measured")
    parser.add_argument("--repeats", type=int, default=3, help="first, warm: processes a backend")
    parser.add_argument(
        "--clock",
        choices=list(CLOCKS),
        default="wall",
        help="first, warm: seconds on the wall, or of all processors (for a machine that others use too)",
    )
    parser.add_argument("--json")
    parser.add_argument(
        "--layers", type=int, help="on the CPU, in a fresh process: so many in place of each model's own"
    )
    parser.add_argument("--what", choices=list(TABLES), default="steps")
    parser.add_argument("--backends")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--limit", type=float, default=1e9, help="on a GPU: start no further model after so many seconds"
    )
    parser.add_argument("--fill", action="store_true", help="on a GPU: fill the disk caches first, in parallel")
    args = parser.parse_args()
    if args.device == "cuda" and args.what not in STARTS:
        from .cuda_models import BACKENDS, run

        run(args.only, args.json, args.backends.split(",") if args.backends else BACKENDS, args.limit, args.fill)
        return
    if args.child and args.device == "cuda":
        child_on_gpu(args.child, args.backends, CLOCKS[args.clock])
        return
    if args.child:
        child(args.child, args.backends, args.what, CLOCKS[args.clock], args.layers)
        return
    names = [name for name in models_on(args.device) if is_asked_for(name, args.only)]
    table = TABLES[args.what]
    backends = (args.backends or table.backends).split(",")
    if args.what == "steps":
        rows = measure_steps(names, backends, args.seconds)
    else:
        repeats = args.repeats if args.what in STARTS else 1
        how = ["--what", args.what, "--clock", args.clock, "--device", args.device]
        how += ["--layers", str(args.layers)] if args.layers else []
        rows = [{**row, "layers": args.layers} for row in measure_children(names, backends, repeats, how)]
    show(rows, backends, table)
    place = "a GPU" if args.device == "cuda" else "the CPU"
    save(f"models on {place}: {args.what}, {table.unit}", rows, args.json)


if __name__ == "__main__":
    main()
