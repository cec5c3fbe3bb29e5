"""Training steps of small models on the CPU: step time, first step in a fresh process, peak memory. On a GPU: see `cuda_models`.

python -m benchmarks.models [--only NAME] [--seconds S] [--json FILE] [--what steps|first|memory]
python -m benchmarks.models --device cuda [--only NAME] [--limit S] [--json FILE] [--backends eager,inductor,bascule]
"""

import argparse
import resource
import subprocess
import sys
import time

import torch

from .measure import geometric_mean, interleaved, print_table, save

BACKENDS = ["eager", "inductor", "bascule"]


def compiled(model: torch.nn.Module, backend: str):
    if backend == "eager":
        return model
    return torch.compile(model, backend=backend, options={"on_error": "raise"} if backend == "bascule" else None)


def child(name: str, backend: str, steps: int) -> None:
    """In a fresh process: prints the seconds of the first step and the peak resident megabytes after `steps` steps."""
    from .model_cases import CASES, build, training_step

    model, inputs = build(next(case for case in CASES if case.name == name))
    call = compiled(model, backend)
    start = time.perf_counter()
    training_step(call, model, inputs)
    first = time.perf_counter() - start
    for _ in range(steps - 1):
        training_step(call, model, inputs)
    print(first, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def in_fresh_process(name: str, backend: str, steps: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.models", "--child", name, "--backend", backend, "--steps", str(steps)]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(f"{name} with {backend}:\n{out.stderr[-3000:]}")
    first, peak = out.stdout.split()[-2:]
    return float(first), float(peak)


def measure_steps(names: list[str], backends: list[str], seconds: float) -> list[dict]:
    from .model_cases import CASES, build, training_step

    rows = []
    for case in (case for case in CASES if case.name in names):
        torch._dynamo.reset()
        variants = {}
        for backend in backends:
            model, inputs = build(case)
            call = compiled(model, backend)
            variants[backend] = lambda call=call, model=model, inputs=inputs: training_step(call, model, inputs)
        medians = interleaved(variants, seconds)
        rows.append({"model": case.name, **{b: medians[b] * 1e3 for b in backends}})
        print(f"  {rows[-1]}", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json")
    parser.add_argument("--what", choices=["steps", "first", "memory"], default="steps")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--child")
    parser.add_argument("--backend", default="bascule")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--limit", type=float, default=1e9, help="on a GPU: start no further model after so many seconds"
    )
    args = parser.parse_args()
    if args.device == "cuda":
        from .cuda_models import run

        run(args.only, args.json, args.backends.split(","), args.limit)
        return
    if args.child:
        child(args.child, args.backend, args.steps)
        return
    from .model_cases import CASES

    names = [case.name for case in CASES if not args.only or args.only in case.name]
    backends = args.backends.split(",")
    if args.what == "steps":
        rows = measure_steps(names, backends, args.seconds)
        peers = backends[1:]
        table = [
            [r["model"], *(f"{r[b]:.2f}" for b in backends), *(f"{r['eager'] / r[b]:.2f}" for b in peers)] for r in rows
        ]
        means = [f"{geometric_mean([r['eager'] / r[b] for r in rows]):.2f}" for b in peers]
        table.append(["geometric mean", *[""] * len(backends), *means])
        print_table(["model", *(f"{b} ms" for b in backends), *(f"eager / {b}" for b in peers)], table)
    else:
        backends = ["aot_eager", *backends[1:]] if args.what == "first" else backends
        steps, pick = (1, 0) if args.what == "first" else (3, 1)
        rows = [{"model": name, **{b: in_fresh_process(name, b, steps)[pick] for b in backends}} for name in names]
        unit = "s" if args.what == "first" else "MiB"
        table = [
            [r["model"], *(f"{r[b]:.2f}" for b in backends), *(f"{r[b] / r[backends[0]]:.2f}" for b in backends[1:])]
            for r in rows
        ]
        print_table(
            ["model", *(f"{b} {unit}" for b in backends), *(f"{b} / {backends[0]}" for b in backends[1:])], table
        )
    save(f"models on the CPU: {args.what}", rows, args.json)


if __name__ == "__main__":
    main()
