"""Contractions on the tensor cores of a GPU: what the interpreter's tests ask, of larger matrices too."""

import pytest
import torch

from tests.lowering.triton.kernels import test_descriptors
from tests.lowering.triton.kernels.test_contractions import EPS, FUSED, LAYOUTS, PIPELINE, SIZES, check, matrices, run

LARGE = [(2048, 1024, 1024), (1000, 777, 3001), (129, 4096, 257), (4096, 64, 30522)]


def on_gpu(dtype, *sizes):
    return [x.cuda() for x in matrices(dtype, *sizes)]


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", SIZES + LARGE, ids=str)
def test_products(sizes, dtype):
    m, k, n = sizes
    check(*run(torch.matmul, *on_gpu(dtype, (m, k), (k, n))), dtype, k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_lie_otherwise(layout):
    check(*run(LAYOUTS[layout], *on_gpu(torch.bfloat16, (60, 70), (70, 50))), torch.bfloat16, 70)


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", [*test_descriptors.SIZES, (1000, 776, 3000), (4096, 64, 30528)], ids=str)
def test_tensor_descriptors(sizes, dtype):
    m, k, n = sizes
    check(*run(torch.matmul, *on_gpu(dtype, (m, k), (k, n))), dtype, k)


@pytest.mark.parametrize("layout", test_descriptors.LAYOUTS)
def test_tensor_descriptors_of_operands_that_lie_otherwise(layout):
    given, function, _ = test_descriptors.LAYOUTS[layout]
    check(*run(function, *given(*on_gpu(torch.bfloat16, (64, 72), (72, 56)))), torch.bfloat16, 72)


@pytest.mark.parametrize("batch", test_descriptors.BATCHES)
def test_tensor_descriptors_of_batches(batch):
    function, x, y, _ = test_descriptors.BATCHES[batch]
    check(*run(function, *on_gpu(torch.bfloat16, x, y)), torch.bfloat16, 56)


def test_tensor_descriptors_of_other_tensors():
    """A compiled product is called with tensors at other addresses, more often than it takes to make a graph of launches."""
    compiled = torch.compile(lambda x, w: (x @ w) @ w @ w @ w, backend="bascule", options={"pipeline": PIPELINE})
    for _ in range(6):
        x, w = on_gpu(torch.bfloat16, (256, 128), (128, 128))
        w /= 16
        torch.testing.assert_close(compiled(x, w), (x @ w) @ w @ w @ w, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", FUSED)
def test_what_is_fused(name):
    found, wanted = run(FUSED[name], *on_gpu(torch.bfloat16, (40, 72), (56, 72), (56,), (40, 56)))
    error = (found.double() - wanted).abs()
    assert (error <= EPS[torch.bfloat16] * wanted.abs() + 2.0**-20 * 72).all()


def test_batches():
    check(*run(torch.bmm, *on_gpu(torch.bfloat16, (7, 200, 90), (7, 90, 130))), torch.bfloat16, 90)


def test_a_product_written_out_in_f32():
    x, w = on_gpu(torch.float32, (400, 300), (300, 500))
    found, wanted = run(lambda x, w: (x[:, :, None] * w).sum(1).relu(), x, w)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)
