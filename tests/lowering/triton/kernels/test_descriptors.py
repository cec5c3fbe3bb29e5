"""Factors of contractions that tensor descriptors load, in the interpreter: which of them do, and that products with them are eager's in f64."""

import pytest
import torch
from bascule.dialect.scheduling.gpu import contractions
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

from tests.lowering.triton.kernels import test_attention, test_attention_training
from tests.lowering.triton.kernels.test_attention import attention, causal, heads
from tests.lowering.triton.kernels.test_contractions import EPS, check, matrices, run


@pytest.fixture
def descriptors(monkeypatch):
    """Those of each kernel that is run."""
    found, real = [], plans.run_kernel

    def kept(kernel, arguments):
        found.append(list(kernel.descriptors))
        real(kernel, arguments)

    monkeypatch.setattr(plans, "run_kernel", kept)
    return found


def counts(descriptors):
    return [len(each) for each in descriptors]


SIZES = [(16, 16, 16), (50, 80, 40), (64, 64, 64), (65, 72, 136), (130, 304, 72), (17, 24, 40), (300, 200, 264)]


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(sizes, dtype, descriptors):
    m, k, n = sizes
    check(*run(torch.matmul, *matrices(dtype, (m, k), (k, n))), dtype, k)
    ((x, y),) = descriptors
    assert (x["sizes"], x["strides"], y["sizes"], y["strides"]) == ([m, k], [k, 1], [k, n], [n, 1])


def transposed(x):
    """The same numbers, columns contiguous."""
    return x.t().contiguous().t()


# How the inputs are given, the product, and the sizes of the factors that are loaded by descriptors.
LAYOUTS = {
    "x transposed": (lambda x, w: (transposed(x), w), lambda x, w: x @ w, [[72, 64], [72, 56]]),
    "w transposed": (lambda x, w: (x, transposed(w)), lambda x, w: x @ w, [[64, 72], [56, 72]]),
    "both transposed": (lambda x, w: (transposed(x), transposed(w)), lambda x, w: x @ w, [[72, 64], [56, 72]]),
    "a slice": (lambda x, w: (x, w), lambda x, w: x[3:, 8:48] @ w[2:42, 8:], [[61, 40], [40, 48]]),
    "of a transposed": (lambda x, w: (transposed(x), w), lambda x, w: x[8:, 8:40] @ w[2:34], [[32, 56], [32, 56]]),
    "a slice elsewhere": (lambda x, w: (x, w), lambda x, w: x[:, 4:48] @ w[:44], [[44, 56]]),
    "every second": (lambda x, w: (x, w), lambda x, w: x[::2] @ w[:, ::3], [[32, 72]]),
    "rows of 71": (lambda x, w: (x[:, :71].contiguous(), w), lambda x, w: x @ w[:71], [[71, 56]]),
    "of 71 in 72": (lambda x, w: (x, w), lambda x, w: x[:, :71] @ w[:71], [[64, 71], [71, 56]]),
    "result transposed": (lambda x, w: (x, w), lambda x, w: (x @ w).t(), [[64, 72], [72, 56]]),
    "rows of two dims": (lambda x, w: (x.view(4, 16, 72), w), lambda x, w: x @ w, [[64, 72], [72, 56]]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_lie_otherwise(layout, descriptors):
    given, function, sizes = LAYOUTS[layout]
    found, wanted = run(function, *given(*matrices(torch.bfloat16, (64, 72), (72, 56))))
    check(found, wanted, torch.bfloat16, 72)
    assert sorted(each["sizes"] for each in descriptors[-1]) == sorted(sizes)


BATCHES = {
    "alike": (lambda x, y: x @ y, (3, 40, 56), (3, 56, 32), [[3, 40, 56], [3, 56, 32]]),
    "one": (lambda x, y: x @ y, (1, 40, 56), (1, 56, 32), [[40, 56], [56, 32]]),
    "of two dims": (lambda x, y: x @ y, (2, 3, 40, 56), (2, 3, 56, 32), [[6, 40, 56], [6, 56, 32]]),
    "heads beside rows": (
        lambda x, y: x.transpose(1, 2) @ y.permute(0, 2, 3, 1),
        (2, 40, 3, 56),
        (2, 32, 3, 56),
        [[2, 3, 32, 56], [2, 3, 40, 56]],
    ),
    "heads that share one": (
        lambda x, y: x @ y.repeat_interleave(2, 1),
        (2, 6, 40, 56),
        (2, 3, 56, 32),
        [[6, 56, 32], [12, 40, 56]],
    ),
    "of one factor": (lambda x, y: x @ y, (3, 40, 56), (56, 32), [[120, 56], [56, 32]]),
}


@pytest.mark.parametrize("batch", BATCHES)
def test_batches(batch, descriptors):
    function, x, y, sizes = BATCHES[batch]
    check(*run(function, *matrices(torch.bfloat16, x, y)), torch.bfloat16, 56)
    assert sorted(each["sizes"] for each in descriptors[-1]) == sorted(sizes)


def test_nothing_comes_from_beyond_a_slice(descriptors):
    """Its neighbours in memory are NaN and infinite."""
    dtype = torch.bfloat16
    large = torch.full((90, 96), float("nan"), dtype=dtype)
    large[::2] = float("inf")
    x, w = matrices(dtype, (50, 72), (72, 40))
    large[8:58, 16:88] = x
    check(*run(lambda large, w: large[8:58, 16:88] @ w, large, w), dtype, 72)
    assert counts(descriptors) == [2]


def test_products_that_are_joined_load_what_they_share_once(descriptors):
    x, v, w = matrices(torch.bfloat16, (70, 72), (72, 40), (72, 40))
    found, wanted = run(lambda x, v, w: F.silu(x @ v) * (x @ w), x, v, w)
    torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=2e-1)
    assert counts(descriptors) == [3]


def test_f32_and_what_is_computed_are_not_loaded_so(descriptors):
    x, w = matrices(torch.float32, (40, 64), (64, 48))
    found, wanted = run(lambda x, w: (x[:, :, None] * w).sum(1).relu(), x, w)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert counts(descriptors) == [0]


def test_without_them(monkeypatch, descriptors):
    monkeypatch.setattr(contractions, "DESCRIPTORS", False)
    check(*run(torch.matmul, *matrices(torch.bfloat16, (64, 64), (64, 64))), torch.bfloat16, 64)
    assert counts(descriptors) == [0]


# Attention: keys and values, in 3 stages: of two there are none (`CRASHING`), and up to 128 keys are two steps

ATTENTIONS = {
    "plain": (attention, [(2, 3, 40, 32), (2, 3, 136, 32), (2, 3, 136, 48)], [[6, 136, 32], [6, 136, 48]]),
    "causal": (
        lambda q, k, v: attention(q, k, v, causal),
        [(2, 130, 64), (2, 130, 64), (2, 130, 64)],
        [[2, 130, 64], [2, 130, 64]],
    ),
    "deep": (attention, [(1, 64, 200), (1, 144, 200), (1, 144, 136)], [[144, 136], [144, 200]]),
    "heads beside rows": (
        lambda q, k, v: attention(*(x.transpose(1, 2) for x in (q, k, v))),
        [(2, 64, 3, 32), (2, 192, 3, 32), (2, 192, 3, 32)],
        [[2, 3, 192, 32], [2, 3, 192, 32]],
    ),
    "heads that share one": (
        lambda q, k, v: attention(q, *(x.repeat_interleave(2, 1) for x in (k, v))),
        [(2, 4, 64, 32), (2, 2, 192, 32), (2, 2, 192, 32)],
        [[4, 192, 32], [4, 192, 32]],
    ),
    "keys by columns": (
        lambda q, k, v: attention(q, k.transpose(1, 2), v),
        [(3, 64, 32), (3, 32, 192), (3, 192, 32)],
        [[3, 32, 192], [3, 192, 32]],
    ),
    "values by columns": (
        lambda q, k, v: attention(q, k, v.transpose(1, 2)),
        [(3, 64, 32), (3, 192, 32), (3, 48, 192)],
        [[3, 48, 192], [3, 192, 32]],
    ),
    "odd columns": (attention, [(3, 64, 32), (3, 192, 32), (3, 192, 51)], [[3, 192, 32]]),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_keys_and_values(name, descriptors):
    function, sizes, wanted = ATTENTIONS[name]
    found, wide, kernels = test_attention.run(function, *matrices(torch.bfloat16, *sizes))
    assert kernels == 1 and sorted(each["sizes"] for each in descriptors[-1]) == sorted(wanted)
    test_attention.check(found, wide, torch.bfloat16)


@pytest.mark.parametrize("mask", test_attention.MASKS)
def test_masks(mask, descriptors):
    change = test_attention.MASKS[mask]
    inputs = heads(torch.bfloat16, 200, 296, 64, 64)
    found, wide, _ = test_attention.run(lambda q, k, v: attention(q, k, v, change), *inputs)
    test_attention.check(found, wide, torch.bfloat16)
    assert counts(descriptors) == [2]


@pytest.mark.parametrize("sizes", [(136, 152, 16, 16), (152, 136, 24, 40), (136, 192, 64, 64)], ids=str)
def test_training(sizes, descriptors):
    found, wide, _ = test_attention_training.run(attention, *heads(torch.bfloat16, *sizes))
    test_attention_training.check(found, wide, torch.bfloat16)
    assert sum(map(bool, descriptors)) >= 3


@pytest.mark.parametrize("keys, number", [(200, 0), (192, 2)])
def test_none_in_two_stages_of_a_walk_that_ends_within_a_step(keys, number, descriptors):
    """Deep heads: shared memory has room for two pieces of keys and values."""
    found, wide, _ = test_attention.run(
        lambda q, k, v: attention(q, k, v, causal), *heads(torch.bfloat16, 70, keys, 256, 64)
    )
    test_attention.check(found, wide, torch.bfloat16)
    assert counts(descriptors) == [number]


@pytest.mark.parametrize("keys", [200, 192])
@pytest.mark.parametrize("deep, columns", [(64, 64), (128, 128), (256, 64), (256, 256)])
def test_attention_is_machine_code_at_each_number_of_stages(deep, columns, keys, monkeypatch):
    """Shared memory has room for one to three pieces: for two of descriptors ptxas may end with a segmentation fault."""
    kernels, real = [], plans.run_kernel
    monkeypatch.setattr(
        plans, "run_kernel", lambda kernel, arguments: (kernels.append(kernel), real(kernel, arguments))
    )
    test_attention.run(lambda q, k, v: attention(q, k, v, causal), *heads(torch.bfloat16, 70, keys, deep, columns))
    (kernel,) = kernels
    assert "wgmma.mma_async" in compile_kernel(kernel, 90).asm["ptx"]
