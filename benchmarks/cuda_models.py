"""Whole models on a GPU: step time, first call and peak memory of eager, Inductor and Bascule; losses or outputs compared with eager in f32.

python -m benchmarks.models --device cuda [--only NAME] [--json FILE] [--backends eager,aot_eager,inductor,bascule] [--limit S] [--fill]

With `--fill` other processes fill the compilers' disk caches first, several at a time: the first calls are then warm ones (`warm_s`), and ten
models with three backends take minutes less. `inductor-max-autotune` measures its products and kernels, without CUDA graphs.
"""

import atexit
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import torch

from bascule.reporting.counters import counters

from .cuda_model_cases import CASES, CudaModelCase
from .measure import FILLING, is_asked_for, print_ratios, print_table, save

BACKENDS = ["eager", "inductor", "inductor-cudagraphs", "bascule", "bascule-cudagraphs"]
UNCACHED = ("eager", "aot_eager")
REPEATS = 20


def compiled(model: torch.nn.Module, backend: str) -> Any:
    match backend:
        case "eager":
            return model
        case "inductor":
            return torch.compile(model, backend="inductor", dynamic=False)
        case "inductor-cudagraphs":
            return torch.compile(model, backend="inductor", mode="reduce-overhead", dynamic=False)
        case "inductor-max-autotune":
            return torch.compile(model, backend="inductor", mode="max-autotune-no-cudagraphs", dynamic=False)
        case "aot_eager":
            return torch.compile(model, backend="aot_eager", dynamic=False)
    ways = {"bascule": {}, "bascule-cudagraphs": {"cudagraphs": True}, "bascule-tiered": {"tiers": True}}
    return torch.compile(model, backend="bascule", dynamic=False, options={"on_error": "raise", **ways[backend]})


def stepper(case: CudaModelCase, model: torch.nn.Module, call: Callable, backend: str) -> Callable[[], torch.Tensor]:
    """One step of the compiled model: gives the loss, or the output."""
    return step_of(case, model, call, compiled(model, backend))


def step_of(case: CudaModelCase, model: torch.nn.Module, call: Callable, target: Any) -> Callable[[], torch.Tensor]:
    """One step of `target`, which is `model` or what it was compiled to."""

    def step() -> torch.Tensor:
        if case.training:
            model.zero_grad(set_to_none=True)
        autocast = torch.autocast("cuda", torch.bfloat16) if case.autocast else nullcontext()
        with autocast, torch.set_grad_enabled(case.training):
            result = call(target)
        if case.training:
            result.backward()
        return result.detach()

    return step


def reference(case: CudaModelCase, model: torch.nn.Module, call: Callable) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss or output, and the gradient of the first parameter, of eager in f32."""
    with torch.set_grad_enabled(case.training):
        if case.autocast:
            result = call(model)
        else:
            result = call(model.float())
            model.to(torch.bfloat16)
    if case.training:
        result.backward()
    return result.detach().float(), gradient(case, model)


def gradient(case: CudaModelCase, model: torch.nn.Module) -> torch.Tensor:
    """The gradient of the parameter that is furthest from the loss."""
    return next(model.parameters()).grad.detach().float().clone() if case.training else torch.zeros(1, device="cuda")


def distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """The length of the difference over that of `want`."""
    return ((got.float() - want).norm() / want.norm().clamp_min(1e-30)).item()


def fill(names: list[str], backends: list[str]) -> None:
    """Lets other processes fill the compilers' disk caches, in a folder of this process's own."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "BASCULE_CACHE_DIR": f"{folder}/bascule"}
    command = [sys.executable, "-m", "benchmarks.models", "--device", "cuda", "--what", "first", "--child"]
    pairs = [[name, "--backends", backend] for name in names for backend in backends if backend not in UNCACHED]

    def run(pair: list[str]) -> None:
        done = subprocess.run([*command, *pair], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"nothing filled for {' '.join(pair)}:\n{done.stderr[-2000:]}", file=sys.stderr)

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // FILLING)) as threads:
        list(threads.map(run, pairs))


def cached() -> Counter[str]:
    """The counters of our disk caches in this process: of graphs, and of what AOTAutograd traced."""
    found = counters()
    return Counter(
        {f"{group}: {what}": number for group in ("cache", "traces") for what, number in found[group].items()}
    )


def timed(step: Callable[[], Any]) -> dict[str, float]:
    """Of warm steps the median of milliseconds, and the peak of memory in MiB."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return {"ms": statistics.median(times), "peak_mib": torch.cuda.max_memory_allocated() / 2**20}


def measure(case: CudaModelCase, backends: list[str], first: str, partly: Callable[[dict], None]) -> dict[str, Any]:
    """`first`: the name of the seconds of the first call."""
    row: dict[str, Any] = {"model": case.name}
    torch.manual_seed(0)
    model, call = case.make()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    want, want_gradient = reference(case, model, call)
    environment = dict(os.environ)
    for backend in backends:
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        model.load_state_dict(state)
        try:
            step = stepper(case, model, call, backend)
            before = cached()
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = step()
            torch.cuda.synchronize()
            found = {first: time.perf_counter() - start}
            found |= {"error": distance(result, want), "gradient_error": distance(gradient(case, model), want_gradient)}
            if more := {name: number - before[name] for name, number in cached().items() if number != before[name]}:
                found["cached"] = more
            del result
            for _ in range(3):
                step()
            row[backend] = {**found, **timed(step)}
        except Exception as error:  # the other backends are still to be measured
            traceback.print_exc()
            row[backend] = {"failed": f"{type(error).__name__}: {error}"[:800]}
        model.zero_grad(set_to_none=True)
        # Inductor sets TRITON_PTXAS_PATH, the assembler of whoever compiles after it: then other entries of a cache are asked for.
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        partly(row)
    return row


def run(only: str | None, json: str | None, backends: list[str], limit: float, filled: bool) -> None:
    """Measures the models whose names contain one of `only`, parted by commas; starts no further one after `limit` seconds. `filled`: with warm
    disk caches."""
    end = time.perf_counter() + limit
    torch.set_float32_matmul_precision("high")
    rows: list[dict[str, Any]] = []
    cases = [case for case in CASES if is_asked_for(case.name, only)]
    first = "first_s"
    if filled:
        fill([case.name for case in cases], backends)
        first = "warm_s"
    for case in cases:
        if time.perf_counter() > end:
            break
        try:
            row = measure(case, backends, first, lambda row: save("models on a GPU", [*rows, row], json))
        except Exception as error:  # the other models are still to be measured
            traceback.print_exc()
            row = {"model": case.name, "failed": f"{type(error).__name__}: {error}"[:800]}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
        save("models on a GPU", rows, json)
        torch.cuda.empty_cache()
    show(rows, backends, first)


def show(rows: list[dict[str, Any]], backends: list[str], first: str) -> None:
    def cell(found: dict[str, Any]) -> list[str]:
        if "ms" not in found:
            return ["failed", "", "", ""]
        errors = f"{found['error']:.1e} {found['gradient_error']:.1e}"
        return [f"{found['ms']:.2f}", f"{found[first]:.1f}", f"{found['peak_mib']:.0f}", errors]

    header = [
        "model",
        *(f"{b} {what}" for b in backends for what in ("ms", first.replace("_", " "), "peak MiB", "errors")),
    ]
    print_table(header, [[row["model"], *(text for b in backends for text in cell(row.get(b, {})))] for row in rows])
    print_ratios(rows, ("ms", first, "peak_mib"))
    for row in rows:
        cold = [row.get(b, {}).get("first_s") for b in ("aot_eager", "inductor", "bascule")]
        if None not in cold:
            aot, inductor, ours = cold
            print(f"{row['model']}: first call beyond aot_eager {ours - aot:.1f} s, Inductor's {inductor - aot:.1f} s")
