"""Calls that ATen refuses when they run raise compiled as they do in eager."""

import pytest
import torch
from torch.nn import functional as F

WHOLE = torch.arange(48).reshape(3, 4, 4)
ROW, SQUARE = torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 25).reshape(5, 5)
IMAGE, GRID = torch.randn(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
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
    "relu of booleans": (lambda x: F.relu(x), [ROW > 0]),
    "the place of the largest boolean": (lambda x: x.argmax(), [ROW > 0]),
}
# What a decomposition or a shape function of PyTorch takes.
CALLS |= {
    "a vector of another length": (lambda x, a, y: torch.addmv(x, a, y, beta=0), [ROW[:4], SQUARE, ROW]),
    "a matrix for a vector": (torch.addmv, [ROW[None], SQUARE, ROW]),
    "a cross product of two dtypes": (lambda x, y: torch.linalg.cross(x, y, dim=-1), [ROW[:3], ROW[:3].double()]),
    "mvlgamma of no dimension": (lambda x: torch.mvlgamma(x, 0), [ROW + 5]),
    "a layer norm in two dtypes": (lambda x, w: F.layer_norm(x, (5,), w), [SQUARE, ROW.double()]),
    "a group norm in two dtypes": (lambda x, w: F.group_norm(x, 5, w, w), [SQUARE.bfloat16(), ROW.double()]),
    "a batch norm in two dtypes": (lambda x, m, v: F.batch_norm(x, m, v), [SQUARE, ROW.double(), ROW.double() + 5]),
    "a batch norm of bytes": (lambda x, m, b: F.batch_norm(x, m, m, None, b, True), [SQUARE, ROW, ROW.byte()]),
    "a grid in another dtype": (lambda x, g: F.grid_sample(x, g, align_corners=True), [IMAGE, GRID.double()]),
    "a bicubic grid in three dimensions": (
        lambda x, g: torch.grid_sampler(x[:, None], g[:, None], 2, 0, True),
        [IMAGE, torch.zeros(1, 2, 2, 3)],
    ),
    "integers from infinity on": (lambda x: torch.linspace(float("inf"), x, 5, dtype=torch.int64), [torch.tensor(3)]),
    "an enlargement to nothing": (lambda x: torch.ops.aten.upsample_linear1d(x, (0,), True), [IMAGE[0]]),
    "an enlargement of blocks to nothing": (
        lambda x: F.interpolate(x, (2, 0, 3), mode="trilinear", align_corners=True),
        [IMAGE[None]],
    ),
}
# Indices of a dtype or of sizes that eager takes nowhere, or not there.
SHORT, BYTES = torch.tensor([1], dtype=torch.int16), torch.tensor([1], dtype=torch.uint8)
CALLS |= {
    "index_put at short integers": (lambda x, i, y: x.index_put((i,), y), [ROW, SHORT, ROW[:1]]),
    "index_put of another dtype": (lambda x, i, y: x.index_put((i,), y), [ROW, torch.tensor([1]), ROW[:1].double()]),
    "index_fill at booleans": (lambda x, i: x.index_fill(0, i, 1.0), [ROW, SHORT > 0]),
    "index_copy at bytes": (lambda x, i, y: x.index_copy(0, i, y), [ROW, BYTES, ROW[:1]]),
    "index_reduce at bytes": (lambda x, i, y: x.index_reduce(0, i, y, "amax"), [ROW, BYTES, ROW[:1]]),
    "index_select at a matrix": (lambda x, i: x.index_select(0, i), [ROW, torch.tensor([[1]])]),
}
# Numbers that the dtype of what they are written to does not hold; arithmetic wraps them instead.
NUMBERS = {
    "full": lambda x: torch.full_like(x, 300),
    "full of a negative fraction": lambda x: torch.full_like(x, -0.5),
    "full of no number": lambda x: torch.full_like(x, float("nan")),
    "fill": lambda x: x.fill_(-300),
    "masked_fill": lambda x: x.masked_fill(x > 1, 300),
    "clamp": lambda x: x.clamp(max=300),
    "a border": lambda x: F.pad(x, (1, 1), value=300),
    "scatter": lambda x: x.scatter(0, x[:1].long(), 300),
    "masked_fill of 16 bits": lambda x: x.half().masked_fill(x > 1, -1e9),
    "hardtanh of 16 bits": lambda x: F.hardtanh(x.half(), -1e9, 1e9),
    "threshold of 16 bits": lambda x: F.threshold(x.half(), 0.5, 1e9),
}
CALLS |= {
    f"a number too large: {name}": (function, [torch.tensor([1, 2]).byte()]) for name, function in NUMBERS.items()
}

COMPLEX = {
    "full": lambda x: torch.full_like(x, 1j),
    "fill": lambda x: x.fill_(1j),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=1j),
    "scatter": lambda x: x.scatter(0, torch.tensor([0]), 1j),
    "a product's bias": lambda x: torch.addmv(x, x[:, None] * x, x, beta=1j),
    "a product": lambda x: torch.addmv(x, x[:, None] * x, x, alpha=1j),
}
CALLS |= {f"a complex number: {name}": (function, [ROW]) for name, function in COMPLEX.items()}


@pytest.mark.parametrize("x", [ROW, ROW.bfloat16(), torch.arange(5), ROW > 0], ids=lambda x: str(x.dtype))
def test_a_complex_number_beside_a_real_tensor(x):
    def seen(x):
        return x == 1 + 2j, x != 1 + 0j, torch.where(x > 0, x, 1j), x * 1j, 1j - x * 2

    compiled = torch.compile(seen, backend="bascule", fullgraph=True, options={"on_error": "raise"})
    for ours, eager in zip(compiled(x), seen(x), strict=True):
        torch.testing.assert_close(ours, eager)


def test_numbers_that_wrap_or_are_infinite_are_taken():
    def held(x):
        y = x.half()
        return x + 300, torch.full_like(x, -1), x.masked_fill(x > 1, -255), y.masked_fill(y > 1, float("-inf")), y + 1e6

    x = torch.tensor([1, 2]).byte()
    compiled = torch.compile(held, backend="bascule", fullgraph=True, options={"fallback": "error"})
    for ours, eager in zip(compiled(x), held(x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)


# Of which the form of ATen that writes to a given result tells in words of its own.
IN_OTHER_WORDS = {
    "weights of a loss in another dtype": (F.nll_loss, [SQUARE, torch.arange(5), ROW.double()]),
    "a softmax's gradient in two dtypes": (
        lambda g, y: torch.ops.aten._softmax_backward_data(g, y, 1, torch.float32),
        [SQUARE.double(), SQUARE],
    ),
}


@pytest.mark.parametrize("name", (*CALLS, *IN_OTHER_WORDS))
def test_raises(name):
    function, arguments = {**CALLS, **IN_OTHER_WORDS}[name]
    with pytest.raises((RuntimeError, IndexError)) as eager:
        function(*arguments)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(eager.type) as ours:
        compiled(*arguments)
    assert name in IN_OTHER_WORDS or str(eager.value) in str(ours.value)
