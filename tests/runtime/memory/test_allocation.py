"""Tensors put where a graph has them in their storages, and those that operators return."""

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


def test_an_undefined_result_is_told_with_the_line():
    """As the workspace of `mkldnn_rnn_layer`, the kernel of an LSTM."""
    with torch.library._scoped_library("bascule_undefined", "DEF") as library:
        library.define("maybe(Tensor x) -> (Tensor, Tensor)")
        library.impl("maybe", lambda x: (x + 1, None), "CPU")
        library.impl("maybe", lambda x: (torch.empty_like(x), torch.empty_like(x)), "Meta")

        def function(x):
            made, workspace = torch.ops.bascule_undefined.maybe(x)
            return made * 2, workspace

        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=r"no tensor where its fake kernel has one of sizes \[4\]") as raised:
            torch.compile(function, backend="bascule")(torch.randn(4))
        assert "test_allocation.py" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
