"""Attention by hand in a training step, in the interpreter: result and gradients against eager in f64, and which kernels run."""

import pytest
import torch

import bascule
from tests.lowering.triton.kernels.test_attention import EPS, MASKS, attention, heads
from tests.lowering.triton.kernels.test_product_chains import CHAINS

FORWARD = 2  # the attention with its rows' statistics, and the reciprocals of those
BACKWARD = 4  # the dots of results and their gradients, and the gradients of values, keys and queries


def gradients(function, inputs, seed):
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    result = function(*inputs)
    return [result.detach(), *torch.autograd.grad(result, [x for x in inputs if x.requires_grad], seed)]


def run(function, *inputs):
    """The result and the gradients in the dtype of the inputs and in f64, and how many kernels ran."""
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "auto" if inputs[0].is_cuda else "interpret", "pipeline": CHAINS}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=False)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        sizes = function(*wide).shape
    seed = torch.randn(sizes, generator=torch.Generator().manual_seed(1)).to(inputs[0].device, inputs[0].dtype)
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = gradients(compiled, inputs, seed)
    launches = bascule.counters()["kernels"]["launches"] - before
    return found, gradients(function, wide, seed.double()), launches


def check(found, wanted, dtype, times=4):
    """Roundings of scores, weights, their changes and results: a part of the largest element, and of all."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype and torch.equal(one.isnan(), other.isnan()) and bool(other.any())
        error, other = (one.double() - other).abs().nan_to_num(0), other.abs().nan_to_num(0)
        assert (error <= times * EPS[dtype] * (other + other.max())).all(), float(error.max() / other.max())
        assert error.square().mean().sqrt() <= times * EPS[dtype] * other.square().mean().sqrt()


SIZES = [(40, 50, 16, 16), (150, 70, 24, 40), (64, 128, 64, 32)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes):
    dtype = torch.float16 if sizes[0] == 40 else torch.bfloat16
    found, wanted, kernels = run(attention, *heads(dtype, *sizes))
    assert kernels == FORWARD + BACKWARD
    check(found, wanted, dtype)


@pytest.mark.parametrize("name", ["prefix or causal", "causal, of a window"])
def test_masks_by_places(name):
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, MASKS[name]), *heads(torch.bfloat16, 90, 90, 16, 32))
    assert kernels == FORWARD + BACKWARD
    check(found, wanted, torch.bfloat16)


def test_no_scores_are_saved():
    q, k, v = (x.requires_grad_() for x in heads(torch.bfloat16, 150, 170, 16, 16))
    saved = []
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "pipeline": CHAINS}
    compiled = torch.compile(attention, backend="bascule", options=options, dynamic=False)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        compiled(q, k, v)
    assert saved and max(saved) <= 2 * 3 * 170 * 16
