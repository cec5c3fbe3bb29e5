"""Sums of which one index counts: their terms alone are computed, with the numbers that eager gives, NaN and infinity among them."""

import pytest
import torch
from torch.nn import functional as F

COLUMNS = 1000


def _columns(t):
    return torch.arange(COLUMNS) == t[:, None]


FOLDED = {
    "select": lambda x, t: torch.where(_columns(t), x, 0.0).sum(-1),
    "product": lambda x, t: (_columns(t) * t[:, None].float()).sum(-1),
    "both": lambda x, t: (_columns(t) & (t[:, None] > 5)).sum(-1),
    "condition": lambda x, t: torch.where(_columns(t) & (x > 0), x * 2, 0.0).sum(-1),
    "nan": lambda x, t: torch.where(_columns(t), x, 0.0 * x[:, 7:8]).sum(-1),
    "gradients": lambda x, t: torch.ops.aten._log_softmax_backward_data(_columns(t) * x[:, :1], x, -1, x.dtype),
}
KEPT = {
    "one hot": lambda x, t: (F.one_hot(t.clamp(0, COLUMNS - 1), COLUMNS) * x).sum(-1),
    "others": lambda x, t: torch.where(_columns(t), x, x * 0.0).sum(-1),
    "two": lambda x, t: torch.where(_columns(t) | _columns(t + 1), x, 0.0).sum(-1),
}


def inputs():
    generator = torch.Generator().manual_seed(0)
    x, t = torch.randn(64, COLUMNS, generator=generator), torch.randint(-5, COLUMNS + 9, (64,), generator=generator)
    t[:3] = torch.tensor([-1, COLUMNS, 0])
    x[5, 7], x[6, 3] = float("nan"), float("inf")
    return x, t


@pytest.mark.parametrize("name", [*FOLDED, *KEPT])
def test_numbers(name):
    function, (x, t) = (FOLDED | KEPT)[name], inputs()
    for target in ("cpu", "interpret"):
        torch._dynamo.reset()
        found = torch.compile(function, backend="bascule", options={"on_error": "raise", "target": target})(x, t)
        wanted = function(x.double(), t).to(found.dtype)
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("name", [*FOLDED, *KEPT])
def test_what_is_folded(name, tmp_path):
    options = {"on_error": "raise", "dump": str(tmp_path), "cache": False}
    torch._dynamo.reset()
    torch.compile((FOLDED | KEPT)[name], backend="bascule", options=options)(*inputs())
    before, after = (
        next(tmp_path.glob(f"*/*-{each}.mlir")).read_text() for each in ("inline-producers", "fold-one-hot-sums")
    )
    assert before.count("bascule.reduce") - after.count("bascule.reduce") == (name in FOLDED)
