"""Calls that ATen refuses when they run raise compiled as they do in eager."""

import pytest
import torch

CALLS = {
    "the largest of nothing": (lambda x: x.max(), [torch.zeros(0)]),
    "the largest in empty rows": (lambda x: x.max(1), [torch.zeros(2, 0)]),
    "the smallest in empty rows": (lambda x: x.min(1).values + 1, [torch.zeros(2, 0)]),
    "a boolean is subtracted": (lambda x, y: x - y, [torch.randn(2, 3), torch.tensor(True)]),
    "something is subtracted from a boolean": (lambda x, y: y - x * 2, [torch.randn(2, 3), torch.tensor(True)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_raises(name):
    function, arguments = CALLS[name]
    with pytest.raises((RuntimeError, IndexError)) as eager:
        function(*arguments)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(eager.type) as ours:
        compiled(*arguments)
    assert str(eager.value) in str(ours.value)
