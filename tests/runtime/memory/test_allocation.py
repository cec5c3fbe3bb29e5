"""Tensors put where a graph has them in their storages."""

import pytest
import torch
from bascule.runtime.memory.allocation import begun_at


@pytest.mark.parametrize("strides", [None, (4, 1), (1, 3), (9, 2)])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("given", ["from the start", "from within", "transposed", "empty"])
def test_begun_at(given, offset, strides):
    x = torch.randn(12).view(3, 4)
    if given == "from within":
        x = torch.randn(17)[5:].view(3, 4)
    if given == "transposed":
        x = torch.randn(4, 3).t()
    if given == "empty":
        x = x[:0]
    got = begun_at(x, offset, strides)
    assert (got.storage_offset(), got.stride(), got.shape) == (offset, strides or x.stride(), x.shape)
    assert torch.equal(got, x)
    assert (got is x) == (x.storage_offset() == offset and x.stride() == (strides or x.stride()))
