"""Functions of places alone stand in the kernel of an attention if they are cheap, or of one index; else they are in memory."""

import math

import pytest
import torch


def attention(change):
    def function(q, k, v):
        rows, keys = (torch.arange(x.shape[1]) for x in (q, k))
        scores = change((q @ k.transpose(-1, -2)).float(), rows[:, None], keys[None, :])
        return torch.softmax(scores, -1).to(q.dtype) @ v

    return function


FORMS = {  # change of the scores, whether they are computed with it
    "causal": (lambda s, r, k: s.masked_fill(k > r, -math.inf), True),
    "documents": (lambda s, r, k: s.masked_fill(k // 24 != r // 24, -math.inf), True),
    "a slope of rows": (lambda s, r, k: s - r.float().exp().log(), True),
    "distances by logarithms": (lambda s, r, k: s - ((k - r).abs() + 1).float().log(), False),
}


@pytest.mark.parametrize("form", FORMS)
def test_where_it_is_computed(form, tmp_path):
    change, inside = FORMS[form]
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(4, 64, 32, generator=generator).bfloat16() for _ in range(3))
    options = {"on_error": "raise", "target": "interpret", "dump": str(tmp_path), "cache": False}
    found = torch.compile(attention(change), backend="bascule", options=options)(q, k, v)
    wanted = attention(change)(q.double(), k.double(), v.double())
    torch.testing.assert_close(found.double(), wanted, atol=0.03, rtol=0.03)
    (path,) = tmp_path.glob("*/*-form-kernels.mlir")
    kernels = path.read_text().split("func.func private")[1:]
    (kernel,) = [text for text in kernels if "math.exp" in text and '"max"' in text]
    read = [text for text in kernel.partition("->")[0].split("%arg")[1:] if "64x64" in text]
    assert bool(read) != inside
