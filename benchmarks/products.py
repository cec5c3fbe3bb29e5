"""Products in bf16 on a GPU, of rows that are not aligned, and joined ones: eager, Inductor, Bascule, and Bascule that pads, or joins, none.

    python -m benchmarks.products [--only NAME,...] [--json FILE] [--alignments] [--max-autotune]

Each result is compared with eager's in f32, element by element, before anything is timed. With --alignments the table is of eager's products
alone, by the bytes that their rows are multiples of, over the time where they are multiples of 16: `unaligned_products` of
`dialect/machines/h200.toml`. With --max-autotune Bascule's and Inductor's `max-autotune` stand beside eager and Bascule, products alone and with
gelu, and the seconds of the first call of each, without anything on disk.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

os.environ["BASCULE_CACHE_DIR"] = ""  # what was compiled with padding is not to be found without

import torch
from bascule.frontend.fx_passes import pad_mm
from torch import Tensor
from torch.nn import functional as F

from bascule.pipelines import DEFAULT

from .kernels import FLUSH, gpu_ms
from .measure import geometric_mean, is_asked_for, print_table, save

Make = Callable[[int, int, int], tuple[Callable[..., Tensor], list[Tensor]]]
BACKENDS = ("eager", "inductor", "bascule", "without")  # without: what the row is about, padding or joining
APART = ",".join("expand-products{capability=80}" if name == "expand-products" else name for name in DEFAULT)
SIZES = (  # rows, length of the sums, columns
    (16384, 768, 30522),
    (16384, 768, 30528),
    (8192, 768, 50257),
    (1024, 768, 50257),
    (16384, 129, 30522),
    (16384, 4096, 30522),
    (4096, 4095, 4096),
    (4096, 4095, 4095),
    (4096, 1025, 1026),
    (65536, 260, 516),
)
JOINED = ((8192, 4096, 16384), (4096, 4096, 4096), (2048, 1024, 1024), (8192, 768, 3072), (4096, 2048, 5632))

# Of --max-autotune.
TUNED = ((8192, 4096, 16384), (4096, 4096, 4096), (2048, 1024, 1024), (8192, 768, 3072), (16384, 768, 30522))
MEASURING: dict[str, dict] = {
    "inductor": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
    "bascule": {"backend": "bascule", "options": {"on_error": "raise", "max_autotune": True}},
    "default": {"backend": "bascule", "options": {"on_error": "raise"}},
}


def matrix(*sizes: int) -> Tensor:
    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) / 8


CASES: dict[str, Make] = {
    "product": lambda m, k, n: (lambda x, w: x @ w, [matrix(m, k), matrix(k, n)]),
    "gelu": lambda m, k, n: (lambda x, w: F.gelu(x @ w), [matrix(m, k), matrix(k, n)]),
    "layer + gelu": lambda m, k, n: (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        [matrix(m, k), matrix(n, k), matrix(n)],
    ),
    "log_softmax": lambda m, k, n: (lambda x, w: (x @ w).log_softmax(-1), [matrix(m, k), matrix(k, n)]),
    "joined": lambda m, k, n: (
        lambda x, w, v: F.silu(F.linear(x, w)) * F.linear(x, v),
        [matrix(m, k), matrix(n, k), matrix(n, k)],
    ),
    "two products": lambda m, k, n: (lambda x, w, v: (x @ w) @ v, [matrix(m, k), matrix(k, n), matrix(n, 256)]),
}


@contextmanager
def nothing_padded() -> Iterator[None]:
    work, pad_mm.WORK = pad_mm.WORK, 1 << 62
    try:
        yield
    finally:
        pad_mm.WORK = work


def first_call(run: Callable[..., Tensor], inputs: list[Tensor], backend: str) -> tuple[Callable[[], Tensor], Tensor]:
    """The timed function, and the result of its first call, in which it is compiled."""
    torch._dynamo.reset()
    if backend == "eager":
        call = run
    elif backend == "inductor":
        call = torch.compile(run, dynamic=False)
    else:
        options = {"on_error": "raise"} | ({"pipeline": APART} if backend == "without" else {})
        call = torch.compile(run, backend="bascule", dynamic=False, options=options)
    if backend != "without":
        return lambda: call(*inputs), call(*inputs)
    with nothing_padded():
        return lambda: call(*inputs), call(*inputs)


def agree(got: Tensor, exact: Tensor) -> None:
    """Fails where an element is off by more than roundings to bf16, of an intermediate result and of the last, and sums in another order
    explain."""
    assert got.shape == exact.shape
    torch.testing.assert_close(got.float(), exact, rtol=2e-2, atol=3e-2 * exact.abs().mean().item())


def measure(name: str, sizes: tuple[int, int, int], scratch: Tensor) -> dict:
    """One row: milliseconds of each backend."""
    torch.manual_seed(0)
    run, inputs = CASES[name](*sizes)
    exact = run(*(x.float() for x in inputs))
    row: dict = {"case": name, "sizes": " x ".join(map(str, sizes))}
    for backend in BACKENDS:
        call, found = first_call(run, inputs, backend)
        agree(found, exact)
        row[f"{backend} strides"] = str(found.stride())
        del found
        row[backend] = gpu_ms(
            call, scratch
        )  # now: to Dynamo the last two are one backend, and the next makes it forget
    print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr)
    return row


def alignments(scratch: Tensor) -> list[dict]:
    """Eager's products with rows of the operands, or of the result, that are multiples of so many bytes."""
    rows = []
    for m, k, n in ((8192, 768, 50256), (16384, 768, 30528), (8192, 4096, 4096)):
        for which in ("columns", "sums"):
            times = {}
            for short in (0, 1, 2, 4):  # elements
                wide, long = (n - short, k) if which == "columns" else (n, k - short)
                x, w = matrix(m, long), matrix(long, wide)
                times[(2 * short) or 16] = gpu_ms(lambda x=x, w=w: x @ w, scratch)
            ratios = {f"{size} bytes": time / times[16] for size, time in times.items()}
            rows.append({"product": f"{m} x {k} x {n}", "unaligned": which, "aligned ms": times[16], **ratios})
    return rows


def autotuned(name: str, sizes: tuple[int, int, int], scratch: Tensor) -> dict:
    """One row of --max-autotune: milliseconds of a call, and seconds of the first one, of what measures and of what does not."""
    torch.manual_seed(0)
    run, inputs = CASES[name](*sizes)
    exact = run(*(x.float() for x in inputs))
    row: dict = {"case": name, "sizes": " x ".join(map(str, sizes)), "eager": gpu_ms(lambda: run(*inputs), scratch)}
    for label, how in MEASURING.items():
        torch._dynamo.reset()
        call = torch.compile(run, dynamic=False, **how)
        start = time.perf_counter()
        found = call(*inputs)
        torch.cuda.synchronize()
        row[f"{label} first s"] = time.perf_counter() - start
        agree(found, exact)
        del found
        row[label] = gpu_ms(lambda call=call: call(*inputs), scratch)
    print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr)
    return row


def main_of_autotuning(only: str | None, scratch: Tensor) -> list[dict]:
    """The rows of --max-autotune, as a table too. What each backend starts with its first compile is not counted."""
    for how in MEASURING.values():
        torch.compile(lambda x, w: (x @ w).relu(), dynamic=False, **how)(matrix(512, 512), matrix(512, 512))
    cases = [name for name in ("product", "gelu", "layer + gelu") if is_asked_for(name, only)]
    rows = [autotuned(name, sizes, scratch) for name in cases for sizes in TUNED]
    times = ["eager", *MEASURING]
    seconds = [f"{label} first s" for label in MEASURING]
    ratios = [("inductor", "bascule"), ("default", "bascule"), ("inductor first s", "bascule first s")]
    table = [
        [r["case"], r["sizes"], *(f"{r[t]:.4f}" for t in times), *(f"{r[s]:.1f}" for s in seconds)]
        + [f"{r[a] / r[b]:.2f}" for a, b in ratios]
        for r in rows
    ]
    means = [f"{geometric_mean([r[a] / r[b] for r in rows]):.2f}" for a, b in ratios]
    table.append(["geometric mean", "", *[""] * (len(times) + len(seconds)), *means])
    print_table(["case", "sizes", *(f"{t} ms" for t in times), *seconds, *(f"{a} / {b}" for a, b in ratios)], table)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts of cases' names, parted by commas")
    parser.add_argument("--alignments", action="store_true")
    parser.add_argument("--max-autotune", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    if args.alignments:
        rows = alignments(scratch)
        print_table(list(rows[0]), [[x if isinstance(x, str) else f"{x:.2f}" for x in row.values()] for row in rows])
        save("products by the alignment of their rows, on a GPU", rows, args.json)
        return
    if args.max_autotune:
        with tempfile.TemporaryDirectory() as fresh:
            os.environ |= {name: f"{fresh}/{name}" for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
            rows = main_of_autotuning(args.only, scratch)
        save("products beside Inductor's max-autotune, milliseconds, and seconds of the first call", rows, args.json)
        return
    rows = [
        measure(name, sizes, scratch)
        for name in CASES
        if is_asked_for(name, args.only)
        for sizes in (JOINED if name == "joined" else SIZES)
    ]
    others = [backend for backend in BACKENDS if backend != "bascule"]
    table = [
        [r["case"], r["sizes"], *(f"{r[b]:.3f}" for b in BACKENDS), *(f"{r[b] / r['bascule']:.2f}" for b in others)]
        for r in rows
    ]
    means = [f"{geometric_mean([r[b] / r['bascule'] for r in rows]):.2f}" for b in others]
    table.append(["geometric mean", "", *[""] * len(BACKENDS), *means])
    print_table(["case", "sizes", *(f"{b} ms" for b in BACKENDS), *(f"{b} / bascule" for b in others)], table)
    save("products with unaligned rows, and joined ones, milliseconds", rows, args.json)


if __name__ == "__main__":
    main()
