"""Products of f32 in TF32 on the tensor cores of a GPU: what the interpreter's tests ask, of larger matrices too."""

import pytest
import torch
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT
from tests.frontend.aot.test_declared_decompositions import experts, layer, trained  # noqa: F401
from tests.lowering.triton.kernels.test_contractions import LAYOUTS, SIZES, matrices
from tests.lowering.triton.kernels.test_grouped_products import ENDS, SUMS, offsets
from tests.lowering.triton.kernels.test_tf32 import (
    F32,
    KINDS,
    agrees,
    allowed,  # noqa: F401  (a fixture)
    grouped,
    looped,
    run,
)

LARGE = [(2048, 1024, 1024), (1000, 777, 3001), (129, 4096, 260)]


def on_gpu(*sizes, dtype=F32):
    return [x.cuda() for x in matrices(dtype, *sizes)]


def check(found, exact, each):
    """Both factors are rounded to 11 bits, ties up by an instruction and to even by a tensor descriptor; sums are in f32. `each`: the sum of
    the products of absolute values."""
    error = (found.double() - exact).abs()
    assert (error <= (2.0**-10 + 2.0**-14) * each + 1e-6).all(), float((error / each.clamp_min(1e-3)).max())


def checked(function, x, w):
    check(run(function, x, w), function(x.double(), w.double()), function(x.double().abs(), w.double().abs()))


@pytest.mark.parametrize("sizes", [each for each in SIZES if each[1] >= 16] + LARGE, ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_products(sizes, across):
    m, k, n = sizes
    x, w = on_gpu((m, k), (k, n) if across else (n, k))
    checked((lambda x, w: x @ w) if across else (lambda x, w: x @ w.t()), x, w)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_operands_that_lie_otherwise(layout):
    x, w = on_gpu((60, 70), (70, 50))
    checked(LAYOUTS[layout], x, w)


@pytest.mark.parametrize("across", [False, True])
def test_no_farther_from_f64_than_cublas(across):
    x, w = on_gpu((1024, 2048), (1024, 2048))
    w = w.t().contiguous().t() if across else w
    exact = x.double() @ w.double().t()
    found = (run(lambda x, w: x @ w.t(), x, w).double() - exact).norm()
    assert found <= 1.05 * ((x @ w.t()).double() - exact).norm()


def test_nan_and_infinities_go_where_they_belong():
    x, w = on_gpu((40, 52), (52, 32))
    x[3, 7], x[5, 49], w[0, 2] = float("nan"), float("inf"), -float("inf")
    found, wanted = run(torch.matmul, x, w), x.double() @ w.double()
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf())


def test_what_follows():
    x, w, b = on_gpu((400, 72), (560, 72), (560,))
    found = run(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    x, w, b = x.double(), w.double(), b.double()
    check(found, F.gelu(F.linear(x, w, b)), 1.2 * F.linear(x.abs(), w.abs(), b.abs()))  # gelu's slope is 1.13 at most


def agree(found, x, y, offs, dtype, precision, summed):
    """As products in TF32, or as those of the factors as they are."""
    if dtype == F32 and precision == "high":
        check(found, looped(x.double(), y.double(), offs), looped(x.double().abs(), y.double().abs(), offs))
    else:
        agrees(found, looped(x.double(), y.double(), offs), dtype, summed)


@pytest.mark.parametrize("dtype, precision", KINDS, ids=str)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups_of_rows(ends, dtype, precision):
    torch.set_float32_matmul_precision(precision)
    (x, w), offs = on_gpu((80, 40), (len(ends), 40, 56), dtype=dtype), offsets(*ends)
    turned = run(lambda x, w, o: grouped(x, w.transpose(1, 2), o), x, w.transpose(1, 2).contiguous(), offs.cuda())
    for found in (run(grouped, x, w, offs.cuda()), turned):
        agree(found, x, w, offs, dtype, precision, 160)


@pytest.mark.parametrize("dtype, precision", KINDS, ids=str)
@pytest.mark.parametrize("ends", SUMS.values(), ids=SUMS)
def test_sums_in_groups(ends, dtype, precision):
    torch.set_float32_matmul_precision(precision)
    (x, y), offs = on_gpu((300, 40), (300, 56), dtype=dtype), offsets(*ends)
    agree(run(lambda x, y, o: grouped(x.t(), y, o), x, y, offs.cuda()), x.t(), y, offs, dtype, precision, 1200)


def test_the_experts_of_transformers(experts):  # noqa: F811
    """Forward and backward replay as CUDA graphs: nothing waits for the GPU."""
    given = *on_gpu((4096, 256), (8, 2 * 384, 256), (8, 384, 256)), torch.arange(1, 9).int().cuda() * 500
    torch._dynamo.reset()
    options = {"on_error": "raise", "pipeline": ",".join(DEFAULT), "cudagraphs": True}
    compiled = torch.compile(layer, backend="bascule", options=options)
    before = dict(bascule.counters()["aten"])
    for _ in range(4):
        found = [x.clone() for x in trained(compiled, *given)]
    assert not experts & {name.partition(":")[0] for name in bascule.counters()["aten"].keys() - before.keys()}
    for one, other in zip(found, trained(layer, *given)):
        assert one.stride() == other.stride()
        assert (one - other).norm() <= 2e-3 * other.norm()
