"""Models replayed as CUDA graphs, beside Inductor's `reduce-overhead`: time of a step, memory that the recordings hold, how many there are.

python -m benchmarks.cudagraphs [--only NAME,NAME] [--backends A,B] [--json FILE] [--limit S] [--fill]

`pool`: the segments of the pool that the recordings share. `reserved`: what PyTorch's allocator has taken of the device beyond what it had
before, with nothing cached but in that pool. `foretold`: what Bascule said beforehand. `recordings`: once warm; `more`: after all steps.
`--fill` runs each model twice and measures nothing: disk caches are warm afterwards.
"""

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from bascule.runtime.cudagraphs import cudagraph_trees

from bascule.cudagraphs.pool_size import pool_bytes
from bascule.entry.backend import compile_dynamo_graph
from bascule.reporting.compile_record import Record

from .cuda_model_cases import CASES, CudaModelCase
from .cuda_models import compiled, distance, gradient, reference, step_of
from .kernels import FLUSH, gpu_ms, host_ms
from .measure import is_asked_for, print_ratios, print_table, save

INDUCTOR, BASCULE = BACKENDS = ["inductor-cudagraphs", "bascule-cudagraphs"]
WARM = 4  # steps: warm-up, recording, two replays
MIB = 2**20
COLUMNS = {
    "first_s": ("first s", ".1f"),
    "ms": ("ms", ".3f"),
    "gpu_ms": ("GPU ms", ".3f"),
    "host_ms": ("host ms", ".3f"),
    "pool_mib": ("pool MiB", ".1f"),
    "reserved_mib": ("reserved MiB", ".1f"),
    "foretold_mib": ("foretold MiB", ".1f"),
    "recordings": ("recordings", ""),
    "more": ("more", ""),
    "error": ("error", ".1e"),
    "gradient_error": ("of gradient", ".1e"),
}


def target_of(model: torch.nn.Module, backend: str, records: list[Record]) -> Any:
    """The compiled model; `records` are told of each graph of ours."""
    if backend != BASCULE:
        return compiled(model, backend)
    ours = partial(compile_dynamo_graph, on_record=records.append)
    return torch.compile(model, backend=ours, dynamic=False, options={"on_error": "raise", "cudagraphs": True})


def empty() -> int:
    """Drops recordings, compiled code and cached memory; the bytes that are still taken of the device."""
    cudagraph_trees.forget()
    torch.compiler.reset()
    return swept()


def swept() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def step_ms(step: Callable[[], Any]) -> float:
    """Median milliseconds from the call to the end of the work."""

    def whole() -> None:
        step()
        torch.cuda.synchronize()

    return host_ms(whole)


def measured(
    case: CudaModelCase,
    model: torch.nn.Module,
    call: Callable,
    backend: str,
    want: tuple[torch.Tensor, torch.Tensor],
    scratch: torch.Tensor,
) -> dict[str, Any]:
    base, records = empty(), list[Record]()
    step = step_of(case, model, call, target_of(model, backend, records))
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    found: dict[str, Any] = {"first_s": time.perf_counter() - start}
    for _ in range(WARM - 2):
        step()
    result = step()  # a replay
    found |= {"error": distance(result, want[0]), "gradient_error": distance(gradient(case, model), want[1])}
    del result
    found["recordings"] = cudagraph_trees.recordings(0)
    found["host_ms"] = host_ms(step)
    found["ms"] = step_ms(step)
    found["gpu_ms"] = gpu_ms(step, scratch, found["host_ms"])
    found["more"] = cudagraph_trees.recordings(0) - found["recordings"]
    found["reserved_mib"] = (swept() - base) / MIB
    found["pool_mib"] = cudagraph_trees.held_bytes(0) / MIB
    if records:
        found["foretold_mib"] = pool_bytes(x.pool for x in records if x.pool is not None) / MIB
        found["not replayed"] = [x.replay for x in records if x.replay is None or x.replay.startswith("not")]
    return found


def measure(case: CudaModelCase, backends: list[str], fill: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"model": case.name}
    torch.manual_seed(0)
    model, call = case.make()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    want = reference(case, model, call) if not fill else None
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    for backend in backends:
        model.load_state_dict(state)
        model.zero_grad(set_to_none=True)
        try:
            if want is None:
                step = step_of(case, model, call, target_of(model, backend, []))
                step(), step()
            else:
                row[backend] = measured(case, model, call, backend, want, scratch)
        except Exception as error:  # the other backends are still to be measured
            traceback.print_exc()
            row[backend] = {"failed": f"{type(error).__name__}: {error}"[:800]}
    model.zero_grad(set_to_none=True)
    empty()
    return row


def show(rows: list[dict[str, Any]], backends: list[str]) -> None:
    lines = []
    for row in rows:
        for backend in backends:
            found = row.get(backend, {})
            cells = [format(found[key], form) if key in found else "" for key, (_, form) in COLUMNS.items()]
            lines.append([row["model"], backend, *(["failed"] if "failed" in found else cells[:1]), *cells[1:]])
    print_table(["model", "backend", *(name for name, _ in COLUMNS.values())], lines)
    print_ratios(rows, ("ms", "gpu_ms", "pool_mib", "reserved_mib"), *BACKENDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names that contain this, or several between commas")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=1e9, help="start no further model after so many seconds")
    parser.add_argument("--fill", action="store_true", help="only fill the disk caches")
    args = parser.parse_args()
    end, backends = time.perf_counter() + args.limit, args.backends.split(",")
    torch.set_float32_matmul_precision("high")
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if not is_asked_for(case.name, args.only) or time.perf_counter() > end:
            continue
        rows.append(measure(case, backends, args.fill))
        print(rows[-1], file=sys.stderr, flush=True)
        save("models replayed as CUDA graphs", rows, args.json)
    if not args.fill:
        show(rows, backends)


if __name__ == "__main__":
    main()
