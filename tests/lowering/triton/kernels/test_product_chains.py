"""Products of what is computed from products, in the interpreter: the gradients of an attention by hand, against f64."""

import pytest
import torch

import bascule
from tests.lowering.triton.kernels.test_attention import EPS, PIPELINE, heads

CHAINS = PIPELINE.replace("fuse-attention", "fuse-attention,fuse-products")


def gradients(q, k, v, g, most, total, dots):
    """Of softmax(q @ k.T / 4) @ v, masked causally: `most` and `total` are of rows of scores, `dots` sums of the result * `g`."""
    wide = torch.promote_types(q.dtype, torch.float32)
    hidden = torch.arange(k.shape[-2], device=q.device) > torch.arange(q.shape[-2], device=q.device)[:, None]
    scores = ((q @ k.transpose(-1, -2)).to(wide) / 4).masked_fill(hidden, -torch.inf)
    weights = torch.exp(scores - most) / total
    changes = weights * ((g @ v.transpose(-1, -2)).to(wide) - dots) / 4
    changes = changes.to(q.dtype)
    return changes @ k, changes.transpose(-1, -2) @ q, weights.to(q.dtype).transpose(-1, -2) @ g


def inputs(dtype, rows, keys, deep, columns, device="cpu"):
    """In f64, but for numbers that `dtype` has."""
    q, k, v = (x.to(device).double() for x in heads(dtype, rows, keys, deep, columns))
    g = (
        torch.randn(*v.shape[:2], rows, columns, generator=torch.Generator().manual_seed(1))
        .to(dtype)
        .to(device)
        .double()
    )
    hidden = torch.arange(keys, device=device) > torch.arange(rows, device=device)[:, None]
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(hidden, -torch.inf)
    most = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - most)
    total = powers.sum(-1, keepdim=True)
    return q, k, v, g, most, total, ((powers / total) @ v * g).sum(-1, keepdim=True)


def run(function, found, dtype):
    """The results in `dtype`, and how many kernels ran."""
    torch._dynamo.reset()
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    options = {"on_error": "raise", "target": "auto" if found[0].is_cuda else "interpret", "pipeline": CHAINS}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=False)
    results = compiled(*(x.to(dtype) for x in found[:4]), *(x.float() for x in found[4:]))
    return results, bascule.counters()["kernels"]["launches"] - before


def check(found, wanted, dtype):
    """Roundings of weights, of their changes, and of sums: a part of the largest element."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype and bool(other.any())
        error = (one.double() - other).abs()
        assert (error <= 2 * EPS[dtype] * (other.abs() + other.abs().max())).all(), float(error.max())


SIZES = [(40, 50, 16, 16), (150, 70, 24, 40), (64, 128, 64, 32)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_of_an_attention(sizes):
    dtype = torch.float16 if sizes[0] == 40 else torch.bfloat16
    found = inputs(dtype, *sizes)
    results, kernels = run(gradients, found, dtype)
    assert kernels == (2 if sizes[2] == sizes[3] else 3)  # keys' and values' in one, where they have as many columns
    check(results, gradients(*found), dtype)


def test_what_is_needed_in_memory_is_no_chain():
    def function(q, k, v, g, *rows):
        weights = torch.tanh(q @ k.transpose(-1, -2))
        return weights @ v, weights

    found = inputs(torch.float16, 40, 50, 16, 16)
    results, kernels = run(function, found, torch.float16)
    assert kernels == 2
    check(results, function(*found), torch.float16)


def test_chains_without_a_softmax():
    def function(q, k, v, g, *rows):
        return (torch.relu(q @ k.transpose(-1, -2) * 0.1) @ v,)

    found = inputs(torch.float16, 40, 50, 16, 16)
    results, kernels = run(function, found, torch.float16)
    assert kernels == 1
    check(results, function(*found), torch.float16)
