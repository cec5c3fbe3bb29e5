"""Attention by hand in a training step, in the interpreter: result and gradients against eager in f64, and which kernels run."""

import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from bascule.lowering.triton.compile.compilation import compile_kernel
from bascule.lowering.triton.interpreter import plans
from bascule.lowering.triton.kernels import loops
from bascule.lowering.triton.kernels.walked_keys import walked_keys

import bascule
from tests.lowering.triton.kernels.test_attention import EPS, MASKS, attention, causal, heads, where
from tests.lowering.triton.kernels.test_product_chains import CHAINS

FORWARD = 2  # the attention with its rows' statistics, and the logarithms of their sums


def backward(deep, columns):
    """Kernels: the dots of results and their gradients, the gradients of queries, and those of keys and values: one, where they have as many
    columns."""
    return 3 if deep == columns else 4


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
    assert kernels == FORWARD + backward(*sizes[2:])
    check(found, wanted, dtype)


ALL = ("key < 200", "200 - row > key", "row + key < 200", "two")  # hide nothing of so few rows and keys


@pytest.mark.parametrize("name", MASKS)
def test_masks_by_places(name, monkeypatch):
    """Four kernels skip what their mask hides: two walk keys, and those of the gradients of keys and values walk queries. A key of a prefix is
    seen by all queries. Where some see no key the gradient of values is NaN everywhere; those of scores are 0 where `masked_fill` hides them."""
    skipping = 0 if name in ALL else {"prefix or causal": 2, "tril": 3}.get(name, 4)
    bounds = []
    monkeypatch.setattr(loops, "walked_keys", lambda *args: bounds.append(walked_keys(*args)) or bounds[-1])
    found, wanted, kernels = run(
        lambda q, k, v: attention(q, k, v, MASKS[name]), *heads(torch.bfloat16, 90, 90, 16, 32)
    )
    assert kernels == FORWARD + backward(16, 32) and len(bounds) == skipping
    check(found, wanted, torch.bfloat16)


SPLIT = {
    "causal": (causal, "hidden"),
    "key >= row": (MASKS["key >= row"], "shown"),
    "window": (where(lambda r, k: (k <= r) & (r - k < 200)), "both"),
    "blocks": (where(lambda r, k: r // 150 == k // 150), "both"),
}


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("name", SPLIT)
def test_steps_that_hide_nothing_look_at_no_mask(name, wrong, monkeypatch):
    """In the kernel of the result, that of queries, and that of keys and values. Were it said wrongly what the mask is in such steps, their
    scores were -inf, and the result another."""
    change, wanted_ends = SPLIT[name]
    ends = []

    def walked(*args):
        keys = walked_keys(*args)
        ends.append("both" if keys.shown and keys.hidden else "shown" if keys.shown else "hidden")
        return replace(keys, settled=[replace(each, shown=each.shown != wrong) for each in keys.settled])

    monkeypatch.setattr(loops, "walked_keys", walked)
    function, given = partial(attention, change=change), heads(torch.bfloat16, 330, 330, 16, 16, (1, 1))
    found, wanted, _ = run(function, *given)
    other = {"hidden": "shown", "shown": "hidden", "both": "both"}[wanted_ends]
    assert sorted(ends) == sorted([wanted_ends, wanted_ends, other])
    if wrong:
        assert not any(torch.allclose(x.double(), y, rtol=0.1, atol=0.1) for x, y in zip(found, wanted))
    else:
        check(found, wanted, torch.bfloat16)


def test_a_mask_is_computed_where_it_hides_something(monkeypatch):
    """In 32 bits, and in the branch: what stands before a branch of choices alone each step would take."""
    pytest.importorskip("triton")
    kernels, real = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: (kernels.append(kernel), real(kernel, given)))
    run(partial(attention, change=causal), *heads(torch.bfloat16, 192, 192, 64, 64, (1, 1)))
    masked = [compile_kernel(kernel, 90).asm["ttgir"] for kernel in kernels if "scf.if" in kernel.ttir]
    assert len(masked) == 3
    for text in masked:
        branches = [text[one.end() : text.index("scf.yield", one.end())] for one in re.finditer(r"\} else \{", text)]
        compared = re.findall(r"arith.cmpi .*x64xi\d+", text)
        inside = re.findall(r"arith.cmpi .*x64xi32", "".join(branches))
        assert compared and len(inside) == len(compared)


@pytest.mark.parametrize("number", [-1e10, torch.finfo(torch.bfloat16).min], ids=str)
def test_rows_that_a_large_number_hides(number):
    hidden = torch.zeros(70, 90, dtype=torch.bool)
    hidden[5], hidden[40:45], hidden[:, 3] = True, True, True

    def function(q, k, v):
        return attention(q, k, v, lambda scores: scores.masked_fill(hidden, number))

    found, wanted, _ = run(function, *heads(torch.bfloat16, 70, 90, 16, 32))
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


def biased(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v


def test_the_gradient_of_a_bias_is_one_kernel():
    bias = torch.randn(1, 3, 70, 40, generator=torch.Generator().manual_seed(2)).bfloat16()
    found, wanted, kernels = run(biased, *heads(torch.bfloat16, 70, 40, 16, 32), bias)
    assert kernels == FORWARD + backward(16, 32) + 1
    check(found, wanted, torch.bfloat16)


def test_a_mask_of_dropout_in_memory():
    def function(q, k, v, bias, kept):
        return (torch.softmax((q @ k.transpose(-1, -2) + bias).float(), -1).to(q.dtype) * kept / 0.75) @ v

    generator = torch.Generator().manual_seed(2)
    bias = torch.randn(1, 3, 40, 50, generator=generator).bfloat16()
    kept = torch.rand(2, 3, 40, 50, generator=generator) > 0.25
    found, wanted, kernels = run(function, *heads(torch.bfloat16, 40, 50, 16, 16), bias, kept)
    assert kernels == FORWARD + backward(16, 16) + 1
    check(found, wanted, torch.bfloat16)


def test_heads_of_queries_that_share_keys():
    def function(q, k, v):
        k, v = (x.repeat_interleave(3, 1) for x in (k, v))
        return attention(q, k, v, causal)

    q, k, v = heads(torch.bfloat16, 50, 50, 16, 16)
    found, wanted, kernels = run(function, q, k[:, :1].contiguous(), v[:, :1].contiguous())
    # Keys' and values' gradients are apart, with the sums over the heads that share. Two more copy keys and values.
    assert kernels == FORWARD + 4 + 2
    check(found, wanted, torch.bfloat16)


def check_dropout(device):
    """Where the forward dropped a weight, as values that are one-hot show, no gradient passes."""

    def function(q, k, v):
        return torch.nn.functional.dropout(torch.softmax(q @ k.transpose(-1, -2), -1), 0.25) @ v

    q, k = (x.to(device).requires_grad_() for x in heads(torch.bfloat16, 40, 50, 16, 16)[:2])
    v = torch.eye(50, device=device)[:, :48].expand(2, 3, 50, 48).bfloat16().requires_grad_()
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "auto" if q.is_cuda else "interpret", "pipeline": CHAINS}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=False)
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    result = compiled(q, k, v)
    weights = result.detach().double()
    assert 0.15 < (weights == 0).double().mean() < 0.35
    seed = torch.randn(2, 3, 40, 48, generator=torch.Generator().manual_seed(1)).bfloat16().to(device)
    found = torch.autograd.grad(result, [q, k, v], seed)
    kernels = bascule.counters()["kernels"]["launches"] - before
    assert kernels <= FORWARD + backward(16, 48) + 1  # and the mask, which the backward draws once

    def again(q, k):
        full = torch.softmax(q @ k.transpose(-1, -2), -1)
        return torch.where(weights == 0, 0, full[..., :48] / 0.75)

    wanted = gradients(again, [q.double(), k.double()], seed.double())
    check([result.detach(), *found[:2]], wanted, torch.bfloat16)
    check([found[2][..., :48, :]], [weights.transpose(-1, -2) @ seed.double()], torch.bfloat16)


def test_dropout_is_drawn_again():
    check_dropout("cpu")


def test_two_attentions_that_share_a_bias():
    """As the layers of T5."""

    def function(x, w, bias):
        for _ in range(2):
            q = (x @ w).view(2, 40, 3, 16).transpose(1, 2)
            weights = torch.softmax((q @ q.transpose(-1, -2) + bias).float(), -1).to(x.dtype)
            x = (weights @ q).transpose(1, 2).reshape(2, 40, 48)
        return x

    generator = torch.Generator().manual_seed(3)
    sizes = (2, 40, 48), (48, 48), (1, 3, 40, 40)
    found = [(torch.randn(size, generator=generator) * 0.3).bfloat16() for size in sizes]
    results, wanted, _ = run(function, *found)
    check(results, wanted, torch.bfloat16, 8)
