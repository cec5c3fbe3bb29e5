"""CPU kernels: eager, Inductor and Bascule in one process, taking turns.

    python -m benchmarks.cpu_kernels [--only NAME] [--seconds S] [--turn N] [--json FILE] [--no-inductor]

With --first-call each kernel's first compiled call is timed instead, in a fresh process a backend.
"""

import argparse
import subprocess
import sys
import time

import torch

from .cpu_cases import CASES, Case, step
from .measure import geometric_mean, interleaved, print_table, save


def compiled(case: Case, backend: str):
    """(the compiled function, its inputs), from the same seed for every backend."""
    torch.manual_seed(0)
    run, inputs = case.make()
    if backend == "eager":
        return run, inputs
    options = {"on_error": "raise"} if backend == "bascule" else None
    return torch.compile(run, backend=backend, options=options, dynamic=False), inputs


def agree(got: object, want: object) -> None:
    """Fails where results differ by more than the rounding of eager's intermediate bf16 values, or of f32 sums, allows."""
    got, want = ([x] if isinstance(x, torch.Tensor) else list(x or []) for x in (got, want))
    for a, b in zip(got, want, strict=True):
        tolerance = 2e-2 if b.dtype == torch.bfloat16 else 2e-3
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def measure_steps(cases: list[Case], backends: list[str], seconds: float, turn: int) -> list[dict]:
    rows = []
    for case in cases:
        torch._dynamo.reset()
        steps = {}
        for backend in backends:
            run, inputs = compiled(case, backend)
            steps[backend] = step(case, run, inputs)
        results = {backend: call() for backend, call in steps.items()}
        for backend in backends[1:]:
            agree(results[backend], results["eager"])
        medians = interleaved(steps, seconds, turn=turn)
        rows.append({"kernel": case.name, "shape": case.shape, **{b: medians[b] * 1e3 for b in backends}})
        print(f"  {case.name}: {', '.join(f'{b} {1e3 * m:.3f} ms' for b, m in medians.items())}", file=sys.stderr)
    return rows


def first_call(name: str, backend: str) -> float:
    """Seconds of the first compiled call, in this (fresh) process; torch itself is imported before."""
    case = next(case for case in CASES if case.name == name)
    run, inputs = compiled(case, backend)
    call = step(case, run, inputs)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_first_calls(cases: list[Case], backends: list[str]) -> list[dict]:
    rows = []
    for case in cases:
        row = {"kernel": case.name, "shape": case.shape}
        for backend in backends[1:]:
            command = [sys.executable, "-m", "benchmarks.cpu_kernels", "--child", case.name, "--backend", backend]
            out = subprocess.run(command, capture_output=True, text=True, check=True)
            row[backend] = float(out.stdout.split()[-1])
        print(f"  {row}", file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turn", type=int, default=5, help="calls of one backend in a row")
    parser.add_argument("--json")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--first-call", action="store_true")
    parser.add_argument("--child")
    parser.add_argument("--backend", default="bascule")
    args = parser.parse_args()
    if args.child:
        print(first_call(args.child, args.backend))
        return
    cases = [case for case in CASES if not args.only or args.only in case.name]
    backends = ["eager", "bascule"] if args.no_inductor else ["eager", "inductor", "bascule"]
    peers = backends[1:]
    if args.first_call:
        rows = measure_first_calls(cases, backends)
        print_table(
            ["kernel", *(f"{b} s" for b in peers)], [[r["kernel"], *(f"{r[b]:.2f}" for b in peers)] for r in rows]
        )
        save("first call of the CPU kernels, seconds", rows, args.json)
        return
    rows = measure_steps(cases, backends, args.seconds, args.turn)
    table = [
        [r["kernel"], r["shape"], *(f"{r[b]:.3f}" for b in backends), *(f"{r['eager'] / r[b]:.2f}" for b in peers)]
        for r in rows
    ]
    means = [f"{geometric_mean([r['eager'] / r[b] for r in rows]):.2f}" for b in peers]
    table.append(["geometric mean", "", *[""] * len(backends), *means])
    print_table(["kernel", "shape", *(f"{b} ms" for b in backends), *(f"eager / {b}" for b in peers)], table)
    save("CPU kernels, median milliseconds", rows, args.json)


if __name__ == "__main__":
    main()
