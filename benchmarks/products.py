"""Products on a GPU, in bf16 of rows that are not aligned, joined ones, and those of operands of few bits: eager, Inductor, Bascule, and Bascule
that pads none, joins none, or leaves all to calls. Of few bits Inductor runs with max-autotune.

    python -m benchmarks.products [--only NAME,...] [--json FILE] [--alignments]

Each result is compared with eager's in f32, element by element, before anything is timed. With --alignments the table is of eager's products
alone, by the bytes that their rows are multiples of, over the time where they are multiples of 16: `unaligned_products` of
`dialect/machines/h200.toml`.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

os.environ["BASCULE_CACHE_DIR"] = ""  # what was compiled with padding is not to be found without

import torch
from bascule.frontend.fx_passes import pad_mm
from torch import Tensor
from torch.nn import functional as F

from bascule.pipelines import DEFAULT

from . import quantized_products as quantized
from .kernels import FLUSH, gpu_ms
from .measure import geometric_mean, is_asked_for, print_table, save

Make = Callable[[int, int, int], tuple[Callable[..., Tensor], list[Tensor]]]
BACKENDS = (
    "eager",
    "inductor",
    "bascule",
    "without",
)  # without: what the row is about, padding, joining, or kernels of few bits
OTHERWISE = {
    "expand-products": "expand-products{capability=80}",
    "expand-quantized-products": "expand-quantized-products{form=call}",
}
APART = ",".join(OTHERWISE.get(name, name) for name in DEFAULT)
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
    **quantized.CASES,
    "two products": lambda m, k, n: (lambda x, w, v: (x @ w) @ v, [matrix(m, k), matrix(k, n), matrix(n, 256)]),
}


@contextmanager
def nothing_padded() -> Iterator[None]:
    work, pad_mm.WORK = pad_mm.WORK, 1 << 62
    try:
        yield
    finally:
        pad_mm.WORK = work


def first_call(
    run: Callable[..., Tensor], inputs: list[Tensor], backend: str, mode: str | None = None
) -> tuple[Callable[[], Tensor], Tensor]:
    """The timed function, and the result of its first call, in which it is compiled. `mode`: Inductor's."""
    torch._dynamo.reset()
    if backend == "eager":
        call = run
    elif backend == "inductor":
        call = torch.compile(run, dynamic=False, mode=mode)
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
    exact = quantized.EXACT.get(name, run)(*(x.float() for x in inputs))
    mode = "max-autotune-no-cudagraphs" if name in quantized.CASES else None
    row: dict = {"case": name, "sizes": " x ".join(map(str, sizes))}
    for backend in BACKENDS:
        call, found = first_call(run, inputs, backend, mode)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts of cases' names, parted by commas")
    parser.add_argument("--alignments", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    if args.alignments:
        rows = alignments(scratch)
        print_table(list(rows[0]), [[x if isinstance(x, str) else f"{x:.2f}" for x in row.values()] for row in rows])
        save("products by the alignment of their rows, on a GPU", rows, args.json)
        return
    rows = [
        measure(name, sizes, scratch)
        for name in CASES
        if is_asked_for(name, args.only)
        for sizes in {"joined": JOINED, **quantized.SIZES}.get(name, SIZES)
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
