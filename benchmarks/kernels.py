"""Memory-bound kernels on a GPU: eager, Inductor and Bascule over a cold L2, each first compared with eager in f32.

python -m benchmarks.kernels [--only NAME] [--json FILE] [--seconds S] [--backends eager,inductor,bascule] [--scale N]
"""

import argparse
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from .kernel_cases import CASES, KernelCase
from .measure import is_asked_for, print_ratios, print_table, save

BACKENDS = ["eager", "inductor", "max-autotune", "bascule"]
FLUSH = 256 << 20  # bytes: several times an L2
CYCLES = 2_000_000  # of the GPU's clock in a millisecond
REPEATS = 30


def compiled(function: Callable[..., Any], backend: str) -> Callable[..., Any]:
    match backend:
        case "eager":
            return function
        case "inductor":
            return torch.compile(function, backend="inductor", dynamic=False)
        case "max-autotune":
            return torch.compile(function, backend="inductor", mode="max-autotune-no-cudagraphs", dynamic=False)
    return torch.compile(function, backend="bascule", dynamic=False, options={"on_error": "raise"})


def runner(case: KernelCase, call: Callable[..., Any], inputs: list[Any]) -> Callable[[], list[torch.Tensor]]:
    """The timed function: a call, with its backward. Gives outputs and gradients."""
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    seeds: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        out = call(*inputs)
        outputs = list(out) if isinstance(out, tuple | list) else [] if out is None else [out]
        if not case.backward:
            return outputs
        if not seeds:
            torch.manual_seed(7)
            seeds.append(torch.randn_like(outputs[0], dtype=torch.float32).to(outputs[0].dtype))
        return [outputs[0].detach(), *torch.autograd.grad(outputs[0], leaves, seeds[0])]

    return run


def gpu_ms(run: Callable[[], Any], scratch: torch.Tensor, host: float = 0.1) -> float:
    """Median GPU time over a cold cache. The GPU sleeps first, longer than the `host` milliseconds that issuing the work takes."""
    times = []
    for _ in range(REPEATS):
        scratch.zero_()
        torch.cuda._sleep(int(CYCLES * (1.5 * host + 0.1)))
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def host_ms(run: Callable[[], Any]) -> float:
    """Median time of the call on the host, the device idle before it."""
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return 1e3 * statistics.median(times)


def copy_bandwidth(scratch: torch.Tensor) -> float:
    """Bytes read and written in a second by a copy."""
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() / (1e-3 * gpu_ms(lambda: b.copy_(a), scratch))


def distance(got: list[torch.Tensor], want: list[torch.Tensor]) -> float:
    """The largest difference of a tensor over its largest element; of 8-bit floats, whose steps are large, the mean difference."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        difference, scale = (g.float() - w.float()).abs(), w.float().abs().max().item() or 1.0
        worst = max(worst, (difference.mean() if w.dtype.itemsize == 1 else difference.max()).item() / scale)
    return worst


def reference(case: KernelCase, inputs: list[Any]) -> list[torch.Tensor]:
    """Eager, computed in f32 on the same inputs."""

    def wide(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return x.detach().float().requires_grad_(x.requires_grad)
        return x

    return [x.detach() for x in runner(case, case.function, [wide(x) for x in inputs])()]


def check(case: KernelCase, backends: list[str]) -> dict[str, float]:
    """How far each backend is from eager in f32, on inputs an eighth as large."""
    if not case.exact:
        return {}
    torch.manual_seed(0)
    inputs = case.make(8)
    want = reference(case, inputs)
    found = {}
    for backend in backends:
        torch._dynamo.reset()
        found[backend] = distance([x.detach() for x in runner(case, compiled(case.function, backend), inputs)()], want)
    return found


def check_adamw(backends: list[str]) -> dict[str, float]:
    """The same for the optimizer: two steps, parameters compared with eager's."""
    results = {}
    for backend in ["eager", *backends]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        (optimizer,) = CASES[-1].make(8)
        step = compiled(CASES[-1].function, backend)
        step(optimizer)
        step(optimizer)
        results[backend] = [p.detach().clone() for p in optimizer.param_groups[0]["params"]]
    return {backend: distance(results[backend], results["eager"]) for backend in backends}


def measure(case: KernelCase, backends: list[str], scale: int, scratch: torch.Tensor) -> dict[str, Any]:
    row: dict[str, Any] = {"kernel": case.name, "bytes": case.bytes / scale}
    row["error"] = check(case, backends) if not case.name.startswith("AdamW") else check_adamw(backends)
    reference_error = max(
        (row["error"].get(name, 0.0) for name in ("eager", "inductor") if name in backends), default=0.0
    )
    torch.manual_seed(0)
    inputs = case.make(scale)
    for backend in backends:
        torch._dynamo.reset()
        try:
            run = runner(case, compiled(case.function, backend), inputs)
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            first = time.perf_counter() - start
            for _ in range(3):
                run()
            host = host_ms(run)
            row[backend] = {"gpu_ms": gpu_ms(run, scratch, host), "host_ms": host, "first_s": first}
        except Exception as error:  # the other backends are still to be measured
            traceback.print_exc()
            row[backend] = {"failed": f"{type(error).__name__}: {error}"[:500]}
        wrong = row["error"].get(backend, 0.0)
        if wrong > max(3 * reference_error, 2e-2):
            row[backend]["wrong"] = wrong
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names that contain this, or several between commas")
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further kernel after this time")
    parser.add_argument("--backends", default="eager,inductor,bascule", help=", ".join(BACKENDS))
    parser.add_argument("--scale", type=int, default=1)
    args = parser.parse_args()
    backends, end = args.backends.split(","), time.perf_counter() + args.seconds
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    copy = copy_bandwidth(scratch)
    rows = []
    for case in CASES:
        if not is_asked_for(case.name, args.only):
            continue
        if time.perf_counter() > end:
            break
        try:
            rows.append(measure(case, backends, args.scale, scratch))
        except Exception as error:  # the other kernels are still to be measured
            traceback.print_exc()
            rows.append({"kernel": case.name, "failed": f"{type(error).__name__}: {error}"[:500]})
        print(rows[-1], file=sys.stderr, flush=True)
        save("memory-bound kernels, cold L2", [{"copy_bandwidth": copy}, *rows], args.json)
        torch.cuda.empty_cache()
    print(f"copy: {copy / 1e9:.0f} GB/s")
    show(rows, backends, copy)


def show(rows: list[dict[str, Any]], backends: list[str], copy: float) -> None:
    def cell(row: dict[str, Any], backend: str) -> list[str]:
        found = row.get(backend, {})
        if "gpu_ms" not in found:
            return ["failed", "", "", ""]
        of_copy = row["bytes"] / copy / (1e-3 * found["gpu_ms"])
        wrong = " WRONG" if "wrong" in found else ""
        return [
            f"{found['gpu_ms']:.4f}{wrong}",
            f"{100 * of_copy:.0f} %",
            f"{found['host_ms']:.3f}",
            f"{found['first_s']:.1f}",
        ]

    header = ["kernel", *(f"{b} {what}" for b in backends for what in ("ms", "of copy", "host ms", "first s"))]
    table = [[row["kernel"], *(text for b in backends for text in cell(row, b))] for row in rows]
    print_table(header, table)
    print_ratios(rows, ("gpu_ms", "host_ms", "first_s"))


if __name__ == "__main__":
    main()
