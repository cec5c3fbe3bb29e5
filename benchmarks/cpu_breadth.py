"""Sixty common operators at three sizes on a CPU: eager, Inductor and Bascule in one process, taking turns.

    python -m benchmarks.cpu_breadth [--only NAME,...] [--sizes 0,1,2] [--threads N] [--seconds S] [--json FILE] [--no-inductor]

Every result is compared with eager's in f64, element by element, before anything is timed. Beside the backends stands
what `torch.compile` itself makes of a call (`traced`: eager's operators, called from Dynamo's code after its guards), which no backend can
take away: of a small operator it is the most. With one thread
the clock is the thread's own processor time, to which other processes add nothing; with several it is the wall's.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from .cpu_breadth_cases import CASES, SIZES
from .measure import geometric_mean, is_asked_for, print_table, save

TRACED = "traced"
LEAST = 0.95  # of eager's speed
TOLERANCES = {torch.bfloat16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-9}
TURN = 5  # calls of one backend in a row, the first not counted
Step = Callable[[], list[Tensor]]


def compiled(run: Callable, backend: str) -> Callable:
    if backend == "eager":
        return run
    options = {"on_error": "raise"} if backend == "bascule" else None
    return torch.compile(run, backend="eager" if backend == TRACED else backend, options=options, dynamic=False)


def tensors(found: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else list(found)


def step(run: Callable, inputs: list[Tensor], trains: bool) -> Step:
    """A call of `run`, and if it `trains` its backward; gives the results and the gradients."""
    if not trains:
        return lambda: tensors(run(*inputs))
    weights: dict[torch.Size, Tensor] = {}

    def training() -> list[Tensor]:
        for x in inputs:
            x.grad = None
        out = run(*inputs)
        if out.shape not in weights:
            weights[out.shape] = torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).view(out.shape)
        out.backward(weights[out.shape])
        return [out, *(x.grad for x in inputs if x.grad is not None)]

    return training


def in_f64(x: Tensor) -> Tensor:
    return x.detach().to(torch.float64 if x.is_floating_point() else x.dtype).clone().requires_grad_(x.requires_grad)


def copies(inputs: list[Tensor]) -> list[Tensor]:
    return [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]


def agree(got: list[Tensor], want: list[Tensor], exact: list[Tensor]) -> None:
    """Fails where `got` lies further from `exact`, eager's in f64, than the rounding of its dtype explains, or is no tensor like eager's."""
    for a, b, c in zip(got, want, exact, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        tolerance = TOLERANCES.get(a.dtype, 0.0)
        torch.testing.assert_close(a.detach().to(c.dtype), c.detach(), rtol=tolerance, atol=tolerance)


def medians(steps: dict[str, Step], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds a call of each, in turns of `TURN` calls."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end or len(times["eager"]) < 20:
        for name, call in steps.items():
            call()
            for _ in range(TURN - 1):
                start = clock()
                call()
                times[name].append(clock() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def measure(name: str, size: tuple[int, int], backends: list[str], seconds: float, threads: int) -> dict:
    """One row: microseconds a call of each of the `backends`."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    run, inputs = CASES[name](*size)
    trains = any(x.requires_grad for x in inputs)
    exact = step(run, [in_f64(x) for x in inputs], trains)()
    steps: dict[str, Step] = {}
    results: dict[str, list[Tensor]] = {}
    for backend in backends:
        steps[backend] = step(compiled(run, backend), copies(inputs), trains)
        results[backend] = [x.clone() for x in steps[backend]()]
        agree(results[backend], results["eager"], exact)
    found = medians(steps, seconds, time.thread_time if threads == 1 else time.perf_counter)
    row = {"operator": name, "size": " x ".join(map(str, size)), **{key: 1e6 * value for key, value in found.items()}}
    print("  " + ", ".join(f"{k} {v if isinstance(v, str) else round(v, 1)}" for k, v in row.items()), file=sys.stderr)
    return row


def report(rows: list[dict], backends: list[str]) -> None:
    peers = backends[2:]
    table = [
        [r["operator"], r["size"], *(f"{r[b]:.1f}" for b in backends)] + [f"{r['eager'] / r[b]:.2f}" for b in peers]
        for r in rows
    ]
    table = [[*line, *(f"{r[TRACED] / r[b]:.2f}" for b in peers)] for line, r in zip(table, rows)]
    means = [f"{geometric_mean([r[a] / r[b] for r in rows]):.2f}" for a in backends[:2] for b in peers]
    table.append(["geometric mean", "", *[""] * len(backends), *means])
    print_table(
        ["operator", "size", *(f"{b} us" for b in backends), *(f"{a} / {b}" for a in backends[:2] for b in peers)],
        table,
    )
    for reference in backends[:2]:
        slow = [r for r in rows if r[reference] < LEAST * r["bascule"]]
        print(f"below {LEAST} of {reference}: {len(slow)} of {len(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts of operators' names, parted by semicolons")
    parser.add_argument("--sizes", default="0,1,2", help="numbers of sizes, smallest first")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="a backend")
    parser.add_argument("--json")
    parser.add_argument("--no-inductor", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    backends = ["eager", TRACED, *([] if args.no_inductor else ["inductor"]), "bascule"]
    sizes = [SIZES[int(number)] for number in args.sizes.split(",")]
    only = args.only and args.only.replace(",", "\0").replace(";", ",")
    names = [name for name in CASES if is_asked_for(name.replace(",", "\0"), only)]
    rows = [measure(name, size, backends, args.seconds, args.threads) for name in names for size in sizes]
    report(rows, backends)
    save("common operators on a CPU, microseconds", rows, args.json, device="cpu")


if __name__ == "__main__":
    main()
