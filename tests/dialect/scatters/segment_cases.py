"""Additions of rows at indices from data, as sums of segments or of all points: what is compiled, and the same in f64 by eager."""

from collections.abc import Callable

import torch
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT


def _pipeline(wanted: str, other: str, options: str = "") -> str:
    """The default pipeline with one pass that does what it can, and without another that would be there first, or do it too."""
    forced = f"{wanted}{{always=true{options}}}"
    return ",".join(forced if stage == wanted else stage for stage in DEFAULT if stage != other)


OPTIONS = {"on_error": "raise", "pipeline": _pipeline("segment-scatters", "gather-scatters", " merged=0")}
# Ordered by kernels, in tiles of 64 points, and of as many as are by default.
MERGED = {"on_error": "raise", "pipeline": _pipeline("segment-scatters", "gather-scatters", " tile=64")}
LARGE_TILES = {"on_error": "raise", "pipeline": _pipeline("segment-scatters", "gather-scatters")}
GATHERED = {"on_error": "raise", "pipeline": _pipeline("gather-scatters", "segment-scatters")}
SORT = "aten.sort.stable"


def _words(kind: str, count: int, rows: int) -> torch.Tensor:
    if kind == "equal":
        return torch.full([count], rows // 3)
    if kind == "runs":  # some rows with many, most with none
        return torch.tensor([0, rows - 1, rows // 2])[torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), count, True)]
    if kind == "zipf":
        weights = 1 / torch.arange(1, rows + 1).double()
        return torch.multinomial(weights, count, replacement=True)
    if kind == "last":
        return torch.full([count], rows - 1)
    return torch.randint(0, rows, [count])


WORDS = ("random", "zipf", "runs", "equal", "last")


def words(kind: str, shape: list[int], rows: int) -> torch.Tensor:
    """Indices below `rows`, spread as `kind` says."""
    count = torch.Size(shape).numel()
    return _words(kind, count, rows).reshape(shape) if count else torch.zeros(shape, dtype=torch.int64)


def embedding(padding_idx: int | None = None) -> Callable:
    """The gradient of a table for that of the embedded words, both of which are computed from others."""

    def gradient(table, index, g):
        out = F.embedding(index, table, padding_idx=padding_idx)
        (grad,) = torch.autograd.grad(out, table, g)
        return grad

    return gradient


def index_add(x, index, g):
    return x.index_add(0, index, g * 2) + 1


def index_put(x, index, g):
    return x.index_put((index,), g, accumulate=True)


def check(compiled: Callable, function: Callable, index: torch.Tensor, x: torch.Tensor, g: torch.Tensor) -> None:
    """`compiled(x, index, g)` is `function` of it in f64, but for its roundings, and kernels compute it."""
    own = x.detach().clone().requires_grad_(x.requires_grad)
    got = compiled(own, index, g)
    wide = torch.float64 if x.is_floating_point() else x.dtype
    want = function(x.detach().to(wide).requires_grad_(x.requires_grad), index, g.to(wide))
    assert got.dtype == x.dtype
    # Of n numbers added in turn an f32 sum errs by some roundings of the sum of magnitudes.
    precision = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}.get(x.dtype, 0)
    scale = max(1.0, index.numel() ** 0.5) * precision
    torch.testing.assert_close(got.to(wide), want.detach(), rtol=precision, atol=scale)
    assert bascule.counters()["kernels"]["launches"]
