"""An index into a dimension that data left without elements: refused before any kernel runs that would read or write there."""

import pytest
import torch
from torch.nn import functional as F


def none_of(x):
    return x.masked_select(x > 0)


def ones(index):
    return torch.ones(index.shape)


READS = {
    "index": lambda x, i: none_of(x)[i] * 2,
    "of nonzero": lambda x, i: (x > 0).nonzero().float()[i] * 2,
    "of a product": lambda x, i: (none_of(x)[:, None] * x).flatten()[i] * 2,
    "gather": lambda x, i: none_of(x).gather(0, i) * 2,
    "index_select": lambda x, i: none_of(x).index_select(0, i) * 2,
    "embedding": lambda x, i: F.embedding(i, none_of(x)[:, None]) * 2,
}
WRITES = {
    "index_put": lambda x, i: none_of(x).index_put((i,), ones(i)) * 2,
    "accumulated": lambda x, i: none_of(x).index_put((i,), ones(i), accumulate=True) * 2,
    "scatter": lambda x, i: none_of(x).scatter(0, i, ones(i)) * 2,
    "scatter_add": lambda x, i: none_of(x).scatter_add(0, i, ones(i)) * 2,
    "index_add": lambda x, i: none_of(x).index_add(0, i, ones(i)) * 2,
}


@pytest.fixture(autouse=True)
def sizes_from_data():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", options={"on_error": "raise", **options})


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("asserts", [True, False])
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_it_is_refused(name, asserts, target):
    function = (READS | WRITES)[name]
    x, index = -torch.ones(5), torch.tensor([0, 0])
    call = compiled(function, target=target, index_asserts=asserts)
    with pytest.raises((IndexError, RuntimeError)):
        function(x, index)
    with pytest.raises(IndexError, match=r"aten\.\w+\.\w+: .*index.* out of bounds for .* 0"):
        call(x, index)
    x[1:4] = torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(call(x, index), function(x, index))


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_no_index_needs_no_element(name, target):
    function = (READS | WRITES)[name]
    x, index = -torch.ones(5), torch.empty(0, dtype=torch.int64)
    call = compiled(function, target=target, index_asserts=False)
    assert call(x, index).shape == function(x, index).shape
