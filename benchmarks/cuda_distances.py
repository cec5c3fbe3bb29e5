"""How far models' losses, outputs and gradients on a GPU are from eager's in f32, over several seeds: one alone says little of a single number.

python -m benchmarks.cuda_distances [--only NAME,NAME] [--seeds N] [--backends A,B] [--json FILE] [--limit S] [--fill]

Each seed draws weights and inputs anew; a model is compiled once for all of them. `result`: |got - want| / |want| of the loss or output;
`first`: of the gradient of the first parameter; `all`: of all gradients together. Printed: the root of the mean square over the seeds.
"""

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Sequence

import torch

from .cuda_model_cases import CASES, CudaModelCase
from .cuda_models import compiled, distance, fill, gradient, reference, step_of
from .measure import is_asked_for, print_ratios, print_table, save

BACKENDS = "eager,inductor,bascule"
KEYS = ("result", "first", "all")


def drawn(case: CudaModelCase, seed: int):
    """A model and a call of it, weights and inputs of `seed`."""
    torch.manual_seed(seed)
    with torch.device("cuda"):
        return case.make()


def gradients(model: torch.nn.Module) -> torch.Tensor:
    """All of them as one long vector."""
    return torch.cat([p.grad.detach().float().flatten() for p in model.parameters() if p.grad is not None])


def measure(case: CudaModelCase, backends: Sequence[str], seeds: int) -> dict:
    models = {backend: drawn(case, 0)[0] for backend in backends}
    for model in models.values():
        if not case.autocast:
            model.to(torch.bfloat16)  # as `reference` leaves it, buffers too
    targets = {backend: compiled(model, backend) for backend, model in models.items()}
    found: dict[str, dict[str, list[float]]] = {backend: {key: [] for key in KEYS} for backend in backends}
    for seed in range(seeds):
        fresh, call = drawn(case, seed)
        state = {name: value.clone() for name, value in fresh.state_dict().items()}
        want, want_first = reference(case, fresh, call)
        want_all = gradients(fresh) if case.training else None
        for backend, model in models.items():
            model.load_state_dict(state)
            result = step_of(case, model, call, targets[backend])()
            found[backend]["result"].append(distance(result, want))
            if want_all is not None:
                found[backend]["first"].append(distance(gradient(case, model), want_first))
                found[backend]["all"].append(distance(gradients(model), want_all))
            model.zero_grad(set_to_none=True)
    return {"model": case.name, **{backend: summary(values) for backend, values in found.items()}}


def summary(values: dict[str, list[float]]) -> dict:
    """The numbers of each seed, and the roots of their mean squares."""
    means = {key: (sum(x * x for x in v) / len(v)) ** 0.5 for key, v in values.items() if v}
    return {**means, "seeds": {key: v for key, v in values.items() if v}}


def cell(row: dict, key: str, backend: str) -> str:
    if "failed" in row:
        return "failed"
    return f"{row[backend][key]:.3g}" if key in row[backend] else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="models with this in their names, or one of several between commas")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--backends", default=BACKENDS)
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=1e9, help="start no further model after so many seconds")
    parser.add_argument("--fill", action="store_true", help="fill the disk caches first, in parallel")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    end = time.perf_counter() + args.limit
    backends = args.backends.split(",")
    cases = [case for case in CASES if is_asked_for(case.name, args.only)]
    if args.fill:
        fill([case.name for case in cases], backends)
    rows: list[dict] = []
    for case in cases:
        if time.perf_counter() > end:
            break
        try:
            row = measure(case, backends, args.seeds)
        except Exception as error:  # the other models are still to be measured; the table names this one
            traceback.print_exc()
            row = {"model": case.name, "failed": f"{type(error).__name__}: {error}"[:800]}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
        save(f"distances from eager in f32, {args.seeds} seeds", rows, args.json)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
    lines = [[row["model"], *(cell(row, key, backend) for key in KEYS for backend in backends)] for row in rows]
    print_table(["model", *(f"{key} {b}" for key in KEYS for b in backends)], lines)
    print_ratios(rows, KEYS)


if __name__ == "__main__":
    main()
