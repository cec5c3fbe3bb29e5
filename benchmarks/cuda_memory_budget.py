"""A training step of GPT-2 on a GPU within memory budgets, beside Inductor's `activation_memory_budget`: peaks and times.

python -m benchmarks.cuda_memory_budget [--json FILE]

Each configuration has a process of its own. A peak is what the caching allocator has handed out at most in warm steps, the model with it;
gradients are let go at a step's begin. Bascule's budgets are parts of Inductor's peak, and Inductor's peaks within budgets of its own.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import torch

from .measure import print_table, save

THEIRS = (1.0, 0.7, 0.5, 0.3)  # of `activation_memory_budget`; 1 is without one
PARTS = (0.5, 0.8)  # of Inductor's peak
MIB = 2**20


def child(backend: str, budget: float | None) -> None:
    """In a fresh process: prints a row."""
    from .cuda_model_cases import CASES
    from .cuda_models import reference, step_of, timed

    torch.set_float32_matmul_precision("high")
    case = next(case for case in CASES if case.name.startswith("GPT-2"))
    torch.manual_seed(0)
    model, call = case.make()
    model.config.loss_type = model.loss_type = "ForCausalLM"  # else a warning about it breaks the graph
    want, _ = reference(case, model, call)
    model.zero_grad(set_to_none=True)
    step = step_of(case, model, call, _compiled(model, backend, budget))
    start = time.perf_counter()
    loss = step()
    torch.cuda.synchronize()
    row: dict[str, Any] = {"first_s": time.perf_counter() - start, "error": abs(loss - want).item()}
    del loss, want
    for _ in range(5):
        step()
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(json.dumps(row | timed(step)))


def _compiled(model: torch.nn.Module, backend: str, budget: float | None) -> Any:
    if backend == "inductor":
        from torch._functorch import config

        config.activation_memory_budget = 1.0 if budget is None else budget
        return torch.compile(model, backend="inductor", dynamic=False)
    options = {"on_error": "raise", "cache": False} | ({} if budget is None else {"memory_budget": int(budget)})
    return torch.compile(model, backend="bascule", dynamic=False, options=options)


def measured(backend: str, budget: float | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.cuda_memory_budget", "--child", backend]
    out = subprocess.run(
        command + ([] if budget is None else ["--budget", str(budget)]), capture_output=True, text=True, check=False
    )
    if out.returncode:
        return {"failed": out.stderr.strip()[-800:]}
    return json.loads(out.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.budget)
        return
    rows: list[dict[str, Any]] = []

    def add(backend: str, told: str, budget: float | None) -> dict[str, Any]:
        rows.append({"case": f"{backend}, {told}", "budget": budget, backend: measured(backend, budget)})
        print(rows[-1], file=sys.stderr, flush=True)
        save("memory budgets on a GPU: GPT-2, a training step", rows, args.json)
        return rows[-1][backend]

    theirs = {part: add("inductor", f"{part} of activations", None if part == 1 else part) for part in THEIRS}
    peaks = {part: MIB * found["peak_mib"] for part, found in theirs.items() if "peak_mib" in found}
    add("bascule", "no budget", None)
    for part in PARTS if 1.0 in peaks else ():
        add("bascule", f"{part} of Inductor's peak", part * peaks[1.0])
    for part, peak in peaks.items():
        add("bascule", f"Inductor's peak at {part}", peak)
    cells = [(row["case"], row.get("inductor") or row["bascule"]) for row in rows]
    lines = [
        [case, *(f"{found[key]:.2f}" if key in found else "failed" for key in ("ms", "peak_mib", "first_s"))]
        for case, found in cells
    ]
    print_table(["case", "ms", "peak MiB", "first step s"], lines)


if __name__ == "__main__":
    main()
