"""Attention in f32 and in TF32, and heads of more than 256, on a GPU: against eager in f64, without scores in memory."""

from functools import partial

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.lowering.triton.kernels import test_f32_attention as interpreted
from tests.lowering.triton.kernels.test_attention import MASKS, attention, heads
from tests.lowering.triton.kernels.test_attention_training import gradients
from tests.lowering.triton.kernels.test_f32_attention import F32, PRECISIONS, check, compiled, run
from tests.lowering.triton.kernels.test_flex_attention import MASKS as FLEX_MASKS
from tests.lowering.triton.kernels.test_flex_attention import SCORES, inputs

precision, by_hand = interpreted.precision, interpreted.by_hand
TIMES = 16  # sums are in another order, powers are the hardware's


def on_gpu(dtype, *sizes):
    return [x.cuda() for x in heads(dtype, *sizes, (2, 4))]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("sizes", [(300, 300, 64, 64), (513, 700, 128, 128), (260, 333, 96, 64)], ids=str)
def test_sizes(sizes, precision, train):
    dtype, eps = precision
    found, wanted, _ = run(partial(attention, change=MASKS["window"]), on_gpu(dtype, *sizes), train)
    check(found, wanted, eps, TIMES)


@pytest.mark.parametrize("precision", PRECISIONS, indirect=True, ids=str)
@pytest.mark.parametrize("sizes", [(200, 300, 256, 256), (130, 333, 320, 384), (200, 300, 512, 512)], ids=str)
def test_large_heads(sizes, precision):
    dtype, eps = precision
    found, wanted, _ = run(attention, [x * 0.5 for x in on_gpu(dtype, *sizes)], True)
    check(found, wanted, eps, TIMES)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("shared", [1, 2])
def test_flex_attention(shared, precision):
    dtype, eps = precision
    given = [x.cuda() for x in inputs(rows=400, keys=500, deep=64, columns=128, shared=shared, dtype=dtype)]
    blocks = create_block_mask(FLEX_MASKS["causal"], None, None, 400, 500, device="cuda")
    function = partial(flex_attention, score_mod=SCORES["softcap"], block_mask=blocks, enable_gqa=shared > 1)
    seed = torch.randn(2, 4, 400, 128, generator=torch.Generator().manual_seed(1)).cuda()
    found = gradients(compiled(function, target="auto"), given, seed)
    check(found, gradients(function, [x.double() for x in given], seed.double()), eps, TIMES)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("precision", F32, indirect=True)
def test_no_scores_of_flex_attention_are_in_memory(precision):
    """Those of 4 heads, 4096 rows and as many keys are 256 MiB."""
    dtype, _ = precision
    given = [x.cuda().requires_grad_() for x in heads(dtype, 4096, 4096, 64, 64, (1, 4))]
    made = compiled(flex_attention, target="auto")
    made(*given).sum().backward()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    made(*given).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 64 << 20
