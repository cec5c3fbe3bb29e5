"""Contractions on tensor cores, in the interpreter: products with what is fused to them, against eager in f64."""

import pytest
import torch
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT

PIPELINE = ",".join("expand-products{contractions=true}" if name == "expand-products" else name for name in DEFAULT)
EPS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def run(function, *inputs):
    """The results of `function` by tensor cores, in the interpreter where the inputs are on a CPU, and in f64 of the same numbers."""
    torch._dynamo.reset()
    target = "auto" if inputs[0].is_cuda else "interpret"
    options = {"on_error": "raise", "target": target, "pipeline": PIPELINE}
    found = torch.compile(function, backend="bascule", options=options)(*inputs)
    return found, function(*(x.double() for x in inputs))


def matrices(dtype, *sizes):
    generator = torch.Generator().manual_seed(sum(map(sum, sizes)))
    return [torch.randn(*size, generator=generator).to(dtype) for size in sizes]


def check(found, wanted, dtype, summed):
    """One rounding to the dtype, and those of so many sums in f32, of terms that are as large as their norm."""
    assert found.dtype == dtype and found.shape == wanted.shape
    error = (found.double() - wanted).abs()
    allowed = EPS[dtype] * wanted.abs() + 2.0**-22 * summed + 1e-6
    assert (error <= allowed).all(), float((error - allowed).max())


SIZES = [
    (9, 9, 9),
    (16, 16, 16),
    (17, 33, 65),
    (50, 80, 40),
    (64, 64, 64),
    (130, 300, 70),
    (300, 20, 11),
    (128, 129, 257),
]


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(sizes, dtype):
    m, k, n = sizes
    check(*run(torch.matmul, *matrices(dtype, (m, k), (k, n))), dtype, k)


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch):
    check(*run(torch.bmm, *matrices(torch.bfloat16, (batch, 40, 50), (batch, 50, 30))), torch.bfloat16, 50)


LONG = {  # rows, summed, columns -> programs of the product
    (64, 8192, 64): 16,
    (40, 8200, 72): 10,
    (70, 6006, 64): 22,
    (1024, 512, 1100): 144,  # many tiles: a sum each
}


@pytest.mark.parametrize("sizes", LONG, ids=str)
def test_long_sums_of_few_tiles_are_cut(sizes, monkeypatch):
    """Their pieces are products of one kernel, a small one adds up their sums in f32, always in one order, and does what follows."""
    m, k, n = sizes
    kernels, real = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: (kernels.append(kernel), real(kernel, given)))
    x, w, b = matrices(torch.bfloat16, (m, k), (k, n), (n,))
    found, wanted = run(lambda x, w, b: torch.relu(x @ w + b), x, w, b)
    check(found, wanted, torch.bfloat16, k)
    assert kernels[0].grid.results[0].value == LONG[sizes] and "tt.dot" in kernels[0].ttir
    assert len(kernels) == (1 if m == 1024 else 2)


def test_a_gradient_of_a_weight_is_cut():
    def function(x, seed, w):
        return w - 0.1 * (x.t() @ seed)

    x, seed, w = matrices(torch.bfloat16, (4096, 48), (4096, 40), (48, 40))
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    told = bascule.explain(function, x, seed, w, options=options)
    assert "split into" in str(told)
    check(*run(function, x, seed, w), torch.bfloat16, 4096)


LAYOUTS = {
    "x transposed": lambda x, w: x.t().contiguous().t() @ w,
    "w transposed": lambda x, w: x @ w.t().contiguous().t(),
    "a slice": lambda x, w: x[3:, :48] @ w[2:, 1:][:48],
    "strided": lambda x, w: x[::2] @ w[:, ::3],
    "result transposed": lambda x, w: (x @ w).t(),
    "expanded": lambda x, w: x[:1].expand(40, -1) @ w,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_lie_otherwise(layout):
    check(*run(LAYOUTS[layout], *matrices(torch.bfloat16, (60, 70), (70, 50))), torch.bfloat16, 70)


FUSED = {
    "relu": lambda x, w, b, r: F.relu(F.linear(x, w)),
    "bias": lambda x, w, b, r: F.linear(x, w, b),
    "bias, gelu": lambda x, w, b, r: F.gelu(F.linear(x, w, b)),
    "residual": lambda x, w, b, r: F.linear(x, w, b) + r,
    "rows of two dims": lambda x, w, b, r: F.silu(F.linear(x.view(5, 8, -1), w, b)),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_is_fused_is_one_kernel(name):
    inputs = matrices(torch.bfloat16, (40, 72), (56, 72), (56,), (40, 56))
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found, wanted = run(FUSED[name], *inputs)
    assert bascule.counters()["kernels"]["launches"] - before == 1
    error = (found.double() - wanted).abs()
    assert (error <= EPS[torch.bfloat16] * wanted.abs() + 2.0**-20 * 72).all()


def test_nothing_comes_from_beyond_the_matrices():
    """Neighbours in memory are NaN and infinite: where pieces end beyond a matrix, nothing of them is in the sums."""
    dtype = torch.bfloat16
    large = torch.full((90, 100), float("nan"), dtype=dtype)
    large[::2] = float("inf")
    x, w = matrices(dtype, (50, 70), (70, 40))
    large[:50, :70] = x
    check(*run(lambda large, w: large[:50, :70] @ w, large, w), dtype, 70)


def test_nan_and_infinities_go_where_they_belong():
    x, w = matrices(torch.bfloat16, (40, 50), (50, 30))
    x[3, 7], x[5, 49], w[0, 2] = float("nan"), float("inf"), -float("inf")
    found, wanted = run(torch.matmul, x, w)
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf())
    assert found[3].isnan().all() and found[:, 2].isinf().sum() > 30


def test_sums_of_f16_beyond_its_range_are_in_f32():
    x, w = torch.full((20, 40), 200.0).half(), torch.full((40, 20), 200.0).half()
    x[:, 20:] *= -1
    found, _ = run(lambda x, w: x @ w + 1, x, w)
    assert (found == 1).all()


def test_a_product_written_out_in_f32():
    """No ATen operator's: a sum of products is a contraction, whoever wrote it."""
    x, w = matrices(torch.float32, (40, 70), (70, 50))
    found, wanted = run(lambda x, w: (x[:, :, None] * w).sum(1).relu(), x, w)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


TOGETHER = {
    "SwiGLU": (lambda x, y, v, w: F.silu(x @ v) * (x @ w), 1),
    "of two operands": (lambda x, y, v, w: torch.tanh(x @ v) * (y @ w), 1),
    "three": (lambda x, y, v, w: (x @ v) * torch.sigmoid(y @ v) + x @ w, 2),
}


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", [(17, 40, 33), (64, 64, 64), (130, 100, 300)], ids=str)
@pytest.mark.parametrize("name", TOGETHER)
def test_products_that_are_joined_are_one_kernel(name, sizes, dtype):
    function, kernels = TOGETHER[name]
    m, k, n = sizes
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found, wanted = run(function, *matrices(dtype, (m, k), (m, k), (k, n), (k, n)))
    assert bascule.counters()["kernels"]["launches"] - before == kernels
    error, largest = (found.double() - wanted).abs(), wanted.abs().max()
    assert (error <= 4 * EPS[dtype] * (wanted.abs() + largest / 8)).all(), float(error.max() / largest)
