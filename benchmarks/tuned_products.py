"""`python -m benchmarks.products --max-autotune`: Bascule and Inductor that measure products, beside eager and Bascule that does not."""

import os
import sys
import tempfile
import time

import torch
from torch import Tensor

from .kernels import gpu_ms
from .measure import geometric_mean, is_asked_for, print_table, save
from .products import CASES, matrix

TUNED = ((8192, 4096, 16384), (4096, 4096, 4096), (2048, 1024, 1024), (8192, 768, 3072), (16384, 768, 30522))
MEASURING: dict[str, dict] = {
    "inductor": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
    "bascule": {"backend": "bascule", "options": {"on_error": "raise", "max_autotune": True}},
    "default": {"backend": "bascule", "options": {"on_error": "raise"}},
}


def autotuned(name: str, sizes: tuple[int, int, int], scratch: Tensor) -> dict:
    """One row: milliseconds of a call, and seconds of the first one, of what measures and of what does not."""
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
        assert found.shape == exact.shape
        torch.testing.assert_close(found.float(), exact, rtol=2e-2, atol=3e-2 * exact.abs().mean().item())
        del found
        row[label] = gpu_ms(lambda call=call: call(*inputs), scratch)
    print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr)
    return row


def run(only: str | None, json: str | None, scratch: Tensor) -> None:
    """Prints the table, and writes the rows as JSON. What each backend starts with its first compile is not counted."""
    with tempfile.TemporaryDirectory() as fresh:
        os.environ |= {name: f"{fresh}/{name}" for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        rows = table_of(only, scratch)
    save("products beside Inductor's max-autotune, milliseconds, and seconds of the first call", rows, json)


def table_of(only: str | None, scratch: Tensor) -> list[dict]:
    """The rows, printed as a table."""
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
