"""Attention of lengths that change from call to call, on the tensor cores of a GPU: what the interpreter's tests ask, and longer rows."""

from functools import partial

import pytest
import torch

from tests.lowering.triton.kernels.test_attention import MASKS, attention, heads
from tests.lowering.triton.kernels.test_changing_lengths import compare

LENGTHS = [(300, 300), (1000, 513), (130, 4096), (64, 70)]


def cases(deep, columns, alike, dtype):
    lengths = [(rows, rows if alike else keys) for rows, keys in LENGTHS]
    return [[x.cuda() for x in heads(dtype, *each, deep, columns)] for each in lengths]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("alike", [True, False], ids=["self", "cross"])
@pytest.mark.parametrize("name", ["none", "window", "causal, of a window", "key >= row"])
@pytest.mark.parametrize(
    "deep, columns, dtype", [(64, 64, torch.bfloat16), (128, 128, torch.float16), (80, 256, torch.bfloat16)]
)
def test_lengths(deep, columns, dtype, name, alike, train):
    function = partial(attention, change=MASKS.get(name, lambda scores: scores))
    compare(function, cases(deep, columns, alike, dtype), train=train)
