"""Readers of a product or an attention take no tensor cores from it: its kernel has no other loops, no condition before it, and rows apart from
columns. In the interpreter, against f64."""

import pytest
import torch
from bascule.dialect.passes.products.read_products import ReadProduct
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

from bascule.pipelines import DEFAULT

BF16 = torch.bfloat16
PIPELINE = ",".join("expand-products{sm-count=1}" if name == "expand-products" else name for name in DEFAULT)


@pytest.fixture
def kernels(monkeypatch):
    """Those that run."""
    found, real = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: (found.append(kernel), real(kernel, given)))
    monkeypatch.setattr(ReadProduct, "is_kernel", True)
    return found


def check(function, *sizes):
    generator = torch.Generator().manual_seed(len(sizes))
    given = [torch.randn(size, generator=generator).clamp(-3, 3).to(BF16) for size in sizes]
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    found = torch.compile(function, backend="bascule", options=options, dynamic=False)(*given)
    wanted = function(*(x.double() for x in given))
    assert found.shape == wanted.shape and found.stride() == wanted.stride()
    assert ((found.double() - wanted).abs() <= 2.0**-6 * (wanted.abs() + wanted.abs().max() / 8)).all()


READERS = {
    "pixels in another order": lambda x, w, v: F.pixel_shuffle((x @ w).view(1, 128, 8, 16), 2),
    "shifted in both dims": lambda x, w, v: F.pad((x @ w)[:-1, :-1], (1, 0, 1, 0)),
    "shifted, after another": lambda x, w, v: F.relu(F.pad(F.gelu(x @ w)[:-1, 2:], (1, 1, 1, 0))),
    "shifted in memory": lambda x, w, v: F.pad((x @ w).view(-1)[:-130], (130, 0)).view(128, 128) + 1,
    "in circles": lambda x, w, v: F.relu((x @ w).roll((1, 3), (0, 1))),
    "a transposition": lambda x, w, v: F.gelu(x @ w).t().contiguous().view(-1),
}
JOINED = {
    "beside each other": lambda x, w, v: torch.cat([x @ w, x @ v], -1),
    "below each other": lambda x, w, v: torch.cat([F.relu(x @ w), x @ v]),
    "stacked": lambda x, w, v: torch.stack([x @ w, x @ v]),
    "in turns": lambda x, w, v: torch.stack([x @ w, F.relu(x @ v)], -1).flatten(-2),
    "multiplied and padded": lambda x, w, v: F.pad(F.relu(x @ w) * (x @ v), (1, 2, 3, 0)),
    "turned": lambda x, w, v: (lambda y: torch.cat([-y[:, 64:], y[:, :64]], -1))(F.relu(x @ w) * (x @ v)),
}


@pytest.mark.parametrize("summed", [16, 128])
@pytest.mark.parametrize("name", READERS | JOINED)
def test_products(name, summed, kernels):
    check((READERS | JOINED)[name], (128, summed), (summed, 128), (summed, 128))
    multiply = [kernel for kernel in kernels if _multiplies(kernel)]
    assert summed == 16 or all("tt.dot" in kernel.ttir for kernel in multiply)
    assert name in JOINED or ["tt.dot" in kernel.ttir for kernel in multiply] == [True]


def _multiplies(kernel):
    return {"mm", "bmm"} & set(kernel.name.split("_"))


AFTER = {
    "stacked": lambda y, v: torch.stack([y, v]),
    "beside each other": lambda y, v: torch.stack([y, v], -1),
    "repeated": lambda y, v: y.unsqueeze(0).expand(3, *y.shape).clone(),
    "heads repeated": lambda y, v: y.repeat_interleave(2, 1),
    "joined": lambda y, v: torch.cat([y, v], -1),
    "padded": lambda y, v: F.pad(y, (1, 2, 0, 1)),
    "normalized": lambda y, v: F.layer_norm(y, y.shape[-1:]),
}


@pytest.mark.parametrize("name", AFTER)
def test_attentions(name, kernels):
    def function(q, k, v):
        return AFTER[name](torch.softmax(q @ k.transpose(-1, -2) * 0.2, -1) @ v, v)

    check(function, (2, 3, 64, 32), (2, 3, 64, 32), (2, 3, 64, 32))
    assert ["tt.dot" in kernel.ttir for kernel in kernels].count(True) == 1
    assert all("tt.dot" in kernel.ttir for kernel in kernels if "exp" in kernel.name)
