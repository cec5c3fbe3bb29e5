"""Products of few bits on a GPU: what the interpreter's tests ask, of larger matrices too, and beside the library's."""

import pytest
import torch
from torch.nn import functional as F

from tests.lowering.triton.kernels import test_quantized_products as interpreted
from tests.lowering.triton.kernels.test_quantized_products import (
    BF16,
    E4M3,
    E5M2,
    F16,
    FIXED,
    LAYOUTS,
    PACKED,
    RAGGED,
    WEIGHTS,
    check_packed,
    check_scaled,
    check_weights,
    close,
    compiled,
    floats,
    fp8,
    integers,
    numbers,
    weight_only,
)

LARGE = [(1024, 1024, 1024), (1000, 1040, 3000), (129, 4096, 272), (4096, 64, 8192), (17, 4096, 4096)]


def by_columns(x):
    return interpreted.by_columns(x)


def on_gpu(inputs):
    return [x.cuda() if x.is_contiguous() else by_columns(x.cuda()) for x in inputs]


ALIGNED = [
    (rows, summed // 16 * 16 + 16, columns // 16 * 16 + 16) for rows, summed, columns in RAGGED
]  # as PyTorch asks on a GPU


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "size", [size for size in FIXED + LARGE if not size[1] % 16 and not size[2] % 16] + ALIGNED, ids=str
)
def test_scaled_products(size, fast):
    check_scaled(on_gpu(fp8(*size)), fast=fast)


@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)], ids=str)
@pytest.mark.parametrize("rowwise", [False, True])
def test_beside_the_library(types, rowwise):
    inputs = on_gpu(fp8(272, 528, 304, *types, rowwise=rowwise))
    if not rowwise:
        inputs[3] = inputs[3].reshape(())
    call = interpreted.scaled(*inputs)
    found, launches = compiled(interpreted.scaled, inputs)
    assert launches == 1
    torch.testing.assert_close(found, call, rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize("size", [size for size in FIXED + RAGGED + LARGE if size[0] > 1], ids=str)
def test_products_of_integers(size):
    m, k, n = size
    x, w = on_gpu([integers(m, k), by_columns(integers(k, n, seed=1))])
    found, launches = compiled(torch._int_mm, [x, w])
    assert launches in numbers(1, x) and torch.equal(found.double(), x.double() @ w.double())


@pytest.mark.parametrize("form", ["inside", "once"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_spellings_of_weights(name, form):
    check_weights(WEIGHTS[name], on_gpu(weight_only(272, 528, 304)), 1 if form == "inside" else 2, form)


@pytest.mark.parametrize("size", FIXED + RAGGED + LARGE + [(1, 4096, 4096), (2, 4096, 512), (3, 4096, 8192)], ids=str)
@pytest.mark.parametrize("name", ["scale of the weight", "scale of the result"])
def test_weights(name, size):
    check_weights(WEIGHTS[name], on_gpu(weight_only(*size)), 1)


@pytest.mark.parametrize("bits", [torch.int8, E4M3, E5M2], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_types_of_weights(rows, dtype, bits):
    check_weights(WEIGHTS["scale of the result"], on_gpu(weight_only(rows, 96, 80, dtype, bits)), 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 4, 70])
def test_weights_that_lie_otherwise(layout, rows):
    inputs = weight_only(rows + 3 if layout == "a slice" else 2 * rows, 160, 90)
    check_weights(WEIGHTS["scale of the weight"], list(LAYOUTS[layout](*(x.cuda() for x in inputs))), 1)


def test_all_bytes_of_a_row():
    """Two instructions widen each: the least and the largest are right."""
    w = torch.arange(-128, 128, dtype=torch.int8).repeat(4096, 16).cuda()
    x = torch.zeros(1, 4096, dtype=BF16, device="cuda")
    x[0, 256:512] = torch.arange(256).to(BF16)
    found, _ = compiled(lambda x, w: F.linear(x, w.to(BF16)), [x, w])
    close(found, x.double() @ w.double().t(), BF16, 0)
    found, _ = compiled(lambda x, w: F.linear(x, w.view(torch.uint8).to(BF16)), [x, w])
    close(found, x.double() @ w.view(torch.uint8).double().t(), BF16, 0)


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("columns, summed", [(48, 64), (80, 1024), (33, 200), (4096, 4096)])
@pytest.mark.parametrize("name", PACKED)
def test_packed_weights(name, columns, summed, rows):
    p = integers(columns, summed // PACKED[name][0]).view(torch.uint8)
    p[0] = torch.arange(p.shape[1]).to(torch.uint8)
    inputs = [floats(BF16, rows, summed), p, (torch.rand(columns) / 16).to(BF16)]
    check_packed(name, [x.cuda() for x in inputs])
