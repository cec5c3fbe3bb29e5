"""Calls that ATen refuses when they run raise compiled as they do in eager."""

import pytest
import torch
from torch.nn import functional as F

WHOLE = torch.arange(48).reshape(3, 4, 4)
CALLS = {
    "the largest of nothing": (lambda x: x.max(), [torch.zeros(0)]),
    "the largest in empty rows": (lambda x: x.max(1), [torch.zeros(2, 0)]),
    "the smallest in empty rows": (lambda x: x.min(1).values + 1, [torch.zeros(2, 0)]),
    "a boolean is subtracted": (lambda x, y: x - y, [torch.randn(2, 3), torch.tensor(True)]),
    "something is subtracted from a boolean": (lambda x, y: y - x * 2, [torch.randn(2, 3), torch.tensor(True)]),
    "an average of whole numbers": (lambda x: F.adaptive_avg_pool2d(x, 2) + 1, [WHOLE]),
    "an average of whole numbers in rows": (lambda x: F.adaptive_avg_pool1d(x, 2) + 1, [WHOLE]),
    "an average of whole numbers in blocks": (lambda x: F.adaptive_avg_pool3d(x[None], 2) + 1, [WHOLE]),
    "the largest whole numbers of windows": (lambda x: F.adaptive_max_pool2d(x, 2) + 1, [WHOLE]),
    "the largest whole numbers of windows in blocks": (lambda x: F.adaptive_max_pool3d(x[None], 2) + 1, [WHOLE]),
    "gelu of whole numbers": (lambda x: F.gelu(x) + 1, [WHOLE]),
    "prelu of whole numbers": (lambda x, w: F.prelu(x, w) + 1, [WHOLE, torch.ones(1, dtype=torch.int64)]),
    "windows of whole numbers": (lambda x: F.unfold(x[None], 2) + 1, [WHOLE]),
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
