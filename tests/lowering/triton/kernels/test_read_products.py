"""Products that pointwise operators alone read, as kernels with these, whatever the model says of so small ones: in the interpreter."""

import pytest
import torch
from bascule.dialect.passes.products.read_products import ReadProduct
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT
from tests.lowering.triton.kernels.test_contractions import check, matrices

PIPELINE = ",".join("expand-products{sm-count=1}" if name == "expand-products" else name for name in DEFAULT)
OTHER = {torch.bfloat16: torch.float16, torch.float16: torch.bfloat16}
SIZES = {"whole": (256, 64, 128), "ragged": (200, 72, 136), "of long sums": (136, 520, 120)}  # rows, summed, columns

READ = {
    "gelu": lambda x, w, r, b: F.gelu(x @ w),
    "a layer": lambda x, w, r, b: F.relu(F.linear(x, w.t(), b)),
    "a layer of weights along the sum": lambda x, w, r, b: torch.tanh(F.linear(x, w.t().contiguous(), b)),
    "a residual sum": lambda x, w, r, b: x @ w + r,
    "by one another": lambda x, w, r, b: torch.sigmoid(F.silu(x @ w) * 2 - r),
    "cut": lambda x, w, r, b: (x @ w)[3:, :-5].clone(),
    "cut, with others": lambda x, w, r, b: F.gelu((x @ w)[:, 7:]) * r[:, 7:],
    "in three dims": lambda x, w, r, b: F.gelu(F.linear(x.view(8, -1, x.shape[1]), w.t(), b)),
    "transposed": lambda x, w, r, b: F.gelu(x @ w).t().contiguous(),
    "of another type": lambda x, w, r, b: (x @ w).to(OTHER.get(x.dtype, x.dtype)) * 3,
    "conditions": lambda x, w, r, b: torch.where(r > 0, x @ w, torch.inf),
    "a batch": lambda x, w, r, b: F.relu(torch.bmm(torch.stack([x, x - 1]), torch.stack([w, w + 1]))),
}
STAYS = {
    "returned too": lambda x, w, r, b: (product := x @ w, F.gelu(product)),
    "halves of it": lambda x, w, r, b: (lambda p: F.silu(p[:, :64]) * p[:, 64:128])(x @ w),
    "repeated": lambda x, w, r, b: F.gelu((x @ w).expand(3, -1, -1)).clone(),
    "sums of rows": lambda x, w, r, b: F.gelu(x @ w).sum(1),
    "read by two": lambda x, w, r, b: (lambda p: (F.gelu(p), p.sin()))(x @ w),
}


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    monkeypatch.setattr(ReadProduct, "is_kernel", True)


def explained(function, dtype, sizes, pipeline=PIPELINE):
    rows, summed, columns = sizes
    given = matrices(dtype, (rows, summed), (summed, columns), (rows, columns), (columns,))
    torch._dynamo.reset()
    options = {"target": "interpret", "on_error": "raise", "pipeline": pipeline}
    found = torch.compile(function, backend="bascule", dynamic=False, options=options)(*given)
    told = bascule.explain(function, *given, dynamic=False, options=options)
    return given, found, told


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", READ)
def test_kernels(name, sizes, dtype):
    given, found, told = explained(READ[name], dtype, SIZES[sizes])
    wanted = READ[name](*(x.double() for x in given))
    assert (found.dtype != dtype) == (name == "of another type") and found.stride() == wanted.stride()
    assert "with what reads it is a kernel" in str(told)
    assert not told.graphs[0].aten
    finite = wanted.isfinite()
    assert torch.equal(finite, found.isfinite())
    check(found.where(finite, 0), wanted.where(finite, 0), found.dtype, 3 * SIZES[sizes][1])


@pytest.mark.parametrize("name", STAYS)
def test_what_something_else_reads_stays_a_call(name):
    _, _, told = explained(STAYS[name], torch.bfloat16, SIZES["ragged"])
    assert len(told.graphs[0].aten) == 1 and "with what reads it" not in str(told)


def test_the_model_is_asked_where_there_are_descriptors():
    """And where each multiprocessor has a tile, and roundings of eager need not stay."""
    for option in ("sm-count=132", "sm-count=1 capability=80", "sm-count=1 numerics=eager"):
        pipeline = PIPELINE.replace("sm-count=1", option)
        _, _, told = explained(READ["gelu"], torch.bfloat16, SIZES["whole"], pipeline)
        assert len(told.graphs[0].aten) == 1 and "with what reads it" not in str(told)


def test_of_two_that_a_compute_joins_one_is_a_kernel_with_it():
    """The other is a call: its result is read by that kernel."""

    def function(x, w, r, b):
        return torch.tanh(x @ w) * ((x + 1) @ (w * 2))

    given, found, told = explained(function, torch.bfloat16, SIZES["whole"])
    assert len(told.graphs[0].aten) == 1 and "that is computed with another product" in str(told)
    wanted = function(*(x.double() for x in given))
    assert (found.double() - wanted).abs().max() < 2**-6 * wanted.abs().max()


def test_in_a_training_step_products_are_calls():
    """Which are saved depends on the memory budget: one that is not would be rounded otherwise."""
    x, w = (each.requires_grad_() for each in matrices(torch.bfloat16, (256, 64), (64, 128)))
    options = {"target": "interpret", "on_error": "raise", "pipeline": PIPELINE}
    torch._dynamo.reset()
    told = bascule.explain(lambda x, w: F.relu(x @ w), x, w, dynamic=False, options=options)
    assert len(told.graphs) == 2 and told.graphs[0].aten and "with what reads it" not in str(told)
