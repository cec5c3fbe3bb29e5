"""Products on a GPU, in bf16 of rows that are not aligned, joined ones, those of eight experts (grouped), and of operands of few bits: eager,
Inductor, Bascule, and Bascule that pads, joins or expands none. The last two kinds run beside Inductor's max-autotune too.

    python -m benchmarks.products [--only NAME,...] [--json FILE] [--alignments] [--max-autotune]

Each result is compared with eager's in f32, element by element, before anything is timed: Bascule's may be as far from it as eager's. How far
each is, over eager's distance, is told (Inductor rounds a product that it pads before it adds a bias). With
--alignments the table is of eager's products alone, by the bytes that their rows are multiples of, over the time where they are multiples of 16:
`unaligned_products` of `dialect/machines/h200.toml`. With --max-autotune Bascule's and Inductor's `max-autotune` stand beside eager and Bascule,
products alone and with gelu, and the seconds of the first call of each, without anything on disk.
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
Found = Tensor | tuple[Tensor, ...]
BACKENDS = (
    "eager",
    "inductor",
    "max-autotune",
    "bascule",
    "without",
)  # without: what the row is about, padding, joining, kernels of groups or of few bits
OURS = ("bascule", "without")
AUTOTUNED = (
    "max-autotune"  # of grouped products and of few bits alone: the others' are matmul templates, and take minutes
)
APART = ",".join(
    "expand-products{capability=80}" if name == "expand-products" else name
    for name in DEFAULT
    if name not in ("expand-quantized-products", "expand-grouped-products")
)
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
GROUPED = ((8192, 2048, 5632), (8192, 512, 1792), (32768, 4096, 1024))
ISSUED = 3.0  # milliseconds in which the host issues a forward and a backward
TRAINED = ("grouped, trained",)  # of which forward and backward are timed
SHARES = (3, 0, 1, 7, 2, 9, 4, 6)  # of the rows, that each of the experts has
JOINED = ((8192, 4096, 16384), (4096, 4096, 4096), (2048, 1024, 1024), (8192, 768, 3072), (4096, 2048, 5632))


def matrix(*sizes: int) -> Tensor:
    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) / 8


def offsets(rows: int) -> Tensor:
    """Where the rows of each expert end."""
    ends = torch.tensor(SHARES).cumsum(0) * rows // sum(SHARES)
    return ends.int().cuda()


def grouped(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    """Rows of x by the matrices of their groups (columns, sums), in f32 by a loop."""
    if x.dtype == torch.bfloat16:
        return torch._grouped_mm(x, w.transpose(1, 2), offs=ends)
    starts = [0, *ends.tolist()]
    return torch.cat([x[first:last] @ part.t() for first, last, part in zip(starts, starts[1:], w)])


def halves(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    gate, up = grouped(x, w, ends).chunk(2, -1)
    return F.silu(gate) * up


def gradients(layer: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Those of all inputs that are floats, of a sum of what a layer gives, which is as large as its first input."""
    given = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    return torch.autograd.grad(layer(*given), [x for x in given if x.requires_grad], inputs[0])


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
    "grouped": lambda m, k, n: (grouped, [matrix(m, k), matrix(8, n, k), offsets(m)]),
    "grouped + silu": lambda m, k, n: (
        lambda x, w, ends: F.silu(grouped(x, w, ends)),
        [matrix(m, k), matrix(8, n, k), offsets(m)],
    ),
    "grouped, two joined": lambda m, k, n: (
        lambda x, w, v, ends: F.silu(grouped(x, w, ends)) * grouped(x, v, ends),
        [matrix(m, k), matrix(8, n, k), matrix(8, n, k), offsets(m)],
    ),
    "grouped, halves joined": lambda m, k, n: (halves, [matrix(m, k), matrix(8, 2 * n, k), offsets(m)]),
    "grouped, trained": lambda m, k, n: (
        lambda x, w, v, ends: grouped(halves(x, w, ends), v, ends),
        [matrix(m, k), matrix(8, 2 * n, k), matrix(8, k, n), offsets(m)],
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
    run: Callable[..., Tensor], inputs: list[Tensor], backend: str, trained: bool
) -> tuple[Callable[[], Found], Found]:
    """The timed function, and the result of its first call, in which it is compiled; gradients, of what is `trained`."""
    torch._dynamo.reset()
    if backend == "eager":
        call = run
    elif backend in ("inductor", AUTOTUNED):
        call = torch.compile(run, dynamic=False, mode="max-autotune-no-cudagraphs" if backend == AUTOTUNED else None)
    else:
        options = {"on_error": "raise", "pipeline": APART if backend == "without" else ",".join(DEFAULT)}
        call = torch.compile(run, backend="bascule", dynamic=False, options=options)

    def timed() -> Found:
        return gradients(call, inputs) if trained else call(*inputs)

    if backend != "without":
        return timed, timed()
    with nothing_padded():
        return timed, timed()


def distances(got: Found, exact: Found) -> list[tuple[float, float, float]]:
    """Of each tensor the mean and the largest distance of an element, and the mean of an element."""
    both = [(got, exact)] if isinstance(got, Tensor) else list(zip(got, exact))
    assert all(one.shape == other.shape for one, other in both)
    errors = [((one.float() - other).abs(), other.abs().mean().item()) for one, other in both]
    return [(error.mean().item(), error.max().item(), size) for error, size in errors]


def agree(got: Found, exact: Found, eager: list[tuple[float, float, float]]) -> None:
    """Fails where elements are further from `exact` than roundings in another order explain, `eager` being eager's distances from it."""
    for (mean, most, size), (eagers, eagers_most, _) in zip(distances(got, exact), eager):
        assert mean <= 1.1 * eagers + 1e-4 * size, f"{mean} on average, where eager is off by {eagers}"
        assert most <= 2 * eagers_most + 1e-2 * size, f"{most} at most, where eager is off by {eagers_most}"


def _over(found: list[tuple[float, float, float]], eager: list[tuple[float, float, float]]) -> float:
    """How far results are from the exact ones on average, over how far eager's are: the most of all tensors."""
    return max(mean / eagers if eagers else float(mean > 0) for (mean, _, _), (eagers, _, _) in zip(found, eager))


def measure(name: str, sizes: tuple[int, int, int], scratch: Tensor) -> dict:
    """One row: milliseconds of each backend."""
    torch.manual_seed(0)
    run, inputs = CASES[name](*sizes)
    trained, few_bits = name in TRAINED, name in quantized.CASES
    wide = [x.float() if few_bits or x.is_floating_point() else x for x in inputs]
    exact = gradients(run, wide) if trained else quantized.EXACT.get(name, run)(*wide)
    row: dict = {"case": name, "sizes": " x ".join(map(str, sizes))}
    eager: list[tuple[float, float, float]] = []
    for backend in BACKENDS:
        if backend == AUTOTUNED and not few_bits and not name.startswith("grouped"):
            row[backend] = None
            continue
        call, found = first_call(run, inputs, backend, trained)
        eager = distances(found, exact) if backend == "eager" else eager
        if backend in OURS:
            agree(found, exact, eager)
        row[f"{backend} distance"] = _over(distances(found, exact), eager)
        row[f"{backend} strides"] = str(found.stride()) if isinstance(found, Tensor) else ""
        del found
        # Now: to Dynamo the last two are one backend, and the next makes it forget.
        row[backend] = gpu_ms(call, scratch, ISSUED if trained else 0.1)
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


def _ratio(row: dict, backend: str) -> float | None:
    return None if row[backend] is None else row[backend] / row["bascule"]


def _told(number: float | None, digits: int) -> str:
    return "" if number is None else f"{number:.{digits}f}"


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
        from .tuned_products import run

        run(args.only, args.json, scratch)
        return
    rows = list[dict]()
    for name in CASES:
        sized = {"joined": JOINED, **quantized.SIZES}.get(name) or (GROUPED if name.startswith("grouped") else SIZES)
        for sizes in sized if is_asked_for(name, args.only) else ():
            rows.append(measure(name, sizes, scratch))
            _save(rows, args.json)  # max-autotune takes minutes: what was measured until a time limit is kept
    others = [backend for backend in BACKENDS if backend != "bascule"]
    table = [
        [r["case"], r["sizes"], *(_told(r[b], 3) for b in BACKENDS), *(_told(_ratio(r, b), 2) for b in others)]
        for r in rows
    ]
    ratios = [[ratio for r in rows if (ratio := _ratio(r, b)) is not None] for b in others]
    means = [f"{geometric_mean(each):.2f}" if each else "" for each in ratios]
    table.append(["geometric mean", "", *[""] * len(BACKENDS), *means])
    print_table(["case", "sizes", *(f"{b} ms" for b in BACKENDS), *(f"{b} / bascule" for b in others)], table)


def _save(rows: list[dict], path: str | None) -> None:
    save("products with unaligned rows, joined and grouped ones, milliseconds", rows, path)


if __name__ == "__main__":
    main()
