"""Attention by hand and flex_attention on a GPU: eager, Inductor, Bascule, Bascule with calls of products, and PyTorch's kernels.

    python -m benchmarks.attention [--only NAME,...] [--backends NAME,...] [--json FILE] [--rows N] [--changing] [--dtype NAME]

Each result, with its gradients, is compared with the function in f64, element by element, before anything is timed. What a backend fails at is
`wrong` or `failed`, with the reason on the standard error. With `--changing` the numbers of rows and keys are symbols to the compilers, as where
they change from call to call. `--dtype` is bf16 (the default), f32, whose products are exact, or tf32.
Without a GPU nothing is timed: `bascule` runs in the interpreter of Triton IR, of `--rows` rows (150).
"""

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from bascule.pipelines import DEFAULT

from .attention_cases import CASES, Case
from .kernels import FLUSH, gpu_ms
from .measure import is_asked_for, print_table, save

APART = ("fuse-attention", "fuse-products")
BACKENDS = ("eager", "inductor", "bascule", "calls", "library")
# The dtype, and of what is compared an error: as a part of an element and the largest, and of the root mean square. Roundings of bf16 have 0.003
# of that, of scores and weights beside results.
DTYPES = {
    "bf16": (torch.bfloat16, 2.0**-6, 0.02),
    "tf32": (torch.float32, 2.0**-8, 0.005),
    "f32": (torch.float32, 2.0**-17, 1e-5),
}


def compiled(case: Case, backend: str, dynamic: bool | None) -> Callable[..., Tensor] | None:
    match backend:
        case "eager":
            return None if case.flex else case.run  # that would hold all scores in f32
        case "library":
            return case.library
        case "inductor":
            return torch.compile(case.run, dynamic=dynamic)
    options: dict[str, Any] = {"on_error": "raise"}
    if backend == "calls":
        options["pipeline"] = ",".join(name for name in DEFAULT if name not in APART)
    if not torch.cuda.is_available():
        options["target"] = "interpret"
    return torch.compile(case.run, backend="bascule", dynamic=dynamic, options=options)


def results(case: Case, call: Callable[..., Tensor], inputs: list[Tensor], seed: Tensor) -> list[Tensor]:
    """The result, and the gradients of the inputs."""
    found = call(*inputs)
    return [found.detach(), *torch.autograd.grad(found, inputs, seed)] if case.backward else [found]


def exact(case: Case, inputs: list[Tensor], seed: Tensor) -> list[Tensor]:
    """The same in f64, one batch after the other; gradients of what has no batch are summed."""
    batch, apart, total = case.sizes[0], list[list[Tensor]](), len(inputs)
    for n in range(batch):
        own = [x.detach()[n : n + 1] if i < 3 else x.detach() for i, x in enumerate(inputs)]
        own = [x.double().requires_grad_(case.backward) for x in own]
        apart.append(results(case, case.run, own, seed[n : n + 1].double()))
    return [torch.cat(parts) if i <= 3 else sum(parts) for i, parts in enumerate(zip(*apart))][: total + 1]


def disagreement(found: list[Tensor], wanted: list[Tensor], dtype: str) -> str | None:
    """Errors found: rows that are NaN, an element by more than its rounding and a part of the largest, or all, by what `DTYPES` has."""
    _, most, mean = DTYPES[dtype]
    for number, (x, y) in enumerate(zip(found, wanted, strict=True)):
        name = f"gradient {number - 1}" if number else "result"
        if x.shape != y.shape or not torch.equal(x.isnan(), y.isnan()):
            return f"{name}: other sizes or other rows of NaN"
        error, y = (x.double() - y).nan_to_num(0), y.nan_to_num(0)
        if (error.abs() > most * (y.abs() + y.abs().max())).any():
            return f"{name}: an element is off by {float(error.abs().max()):.4g} of at most {float(y.abs().max()):.4g}"
        if error.square().mean().sqrt() > mean * y.square().mean().sqrt():
            return f"{name}: off by {float(error.square().mean().sqrt() / y.square().mean().sqrt()):.4f} of its size"
    return None


def measure(case: Case, backends: list[str], scratch: Tensor | None, changing: bool, dtype: str) -> dict[str, Any]:
    """One row: milliseconds of each backend, and what of memory it takes, in MB; `changing`: rows and keys are symbols."""
    torch.manual_seed(0)
    device = "cpu" if scratch is None else "cuda"
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    inputs = case.inputs(device, DTYPES[dtype][0])
    seed = torch.randn(case.sizes[0], case.sizes[1], case.sizes[2], case.sizes[4], device=device).to(inputs[0].dtype)
    wanted = None if case.random else exact(case, inputs, seed)
    for x in inputs if changing else ():
        torch._dynamo.maybe_mark_dynamic(x, [2, 3] if x is inputs[-1] and case.biased else 2)
    row: dict[str, Any] = {"case": case.name, "sizes": " x ".join(map(str, case.sizes))}
    for backend in backends:
        torch._dynamo.reset()
        call = compiled(case, backend, None if changing else False)
        if call is None:
            continue
        began = perf_counter()
        try:
            found = results(case, call, inputs, seed)
        except Exception as error:
            row[backend] = "failed"
            print(f"{case.name}, {backend}: {error}", file=sys.stderr)
            continue
        wrong = None if wanted is None else disagreement(found, wanted, dtype)
        row[backend] = "wrong" if wrong else "right"
        if wrong:
            print(f"{case.name}, {backend}: {wrong}", file=sys.stderr)
        del found
        if not wrong and scratch is not None:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            row[backend] = gpu_ms(lambda call=call: results(case, call, inputs, seed), scratch, host=1.0)
            row[f"{backend} MB"] = (torch.cuda.max_memory_allocated() - before) / 1e6
        memory = f", {row[f'{backend} MB']:.0f} MB" if f"{backend} MB" in row else ""
        print(
            f"  {case.name}, {backend}: {row[backend]}{memory}, {perf_counter() - began:.1f} s in all", file=sys.stderr
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts of cases' names, parted by commas")
    parser.add_argument("--backends")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--json")
    parser.add_argument("--changing", action="store_true")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    args = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda") if on_gpu else None
    backends = args.backends.split(",") if args.backends else list(BACKENDS) if on_gpu else ["bascule"]
    cases = [case for case in CASES if is_asked_for(case.name, args.only)]
    how = backends, scratch, args.changing, args.dtype
    rows = [measure(case if on_gpu else case.short(args.rows), *how) for case in cases]
    table = [
        [f"{x:.3f}" if isinstance(x := row.get(key, ""), float) else str(x) for key in ("case", "sizes", *backends)]
        + [f"{x:.0f}" if (x := row.get(f"{backend} MB")) is not None else "" for backend in backends if on_gpu]
        for row in rows
    ]
    header = ["case", "batch x heads x rows x keys x head", *(f"{b} ms" if on_gpu else b for b in backends)]
    print_table([*header, *(f"{b} MB" for b in backends if on_gpu)], table)
    name = f"attention{' of rows and keys that change' if args.changing else ''}"
    save(f"{name}{'' if args.dtype == 'bf16' else f', {args.dtype}'}, milliseconds", rows, args.json)


if __name__ == "__main__":
    main()
