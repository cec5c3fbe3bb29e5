"""Products of f32 that tensor cores multiply in TF32, where PyTorch allows it: in the interpreter, against f64 of the rounded factors."""

import re

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from bascule.lowering.triton.interpreter import plans
from bascule.lowering.triton.interpreter.operations import tf32
from bascule.runtime.modules.grouped_products import grouped_mm as looped
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT
from tests.lowering.triton.kernels.test_contractions import LAYOUTS, SIZES, matrices
from tests.lowering.triton.kernels.test_descriptors import descriptors  # noqa: F401  (a fixture)
from tests.lowering.triton.kernels.test_grouped_products import ENDS, SUMS, offsets

SETTINGS = {"expand-products": "contractions=true", "expand-grouped-products": "always=true"}
PIPELINE = ",".join(f"{name}{{{SETTINGS[name]}}}" if name in SETTINGS else name for name in DEFAULT)
F32 = torch.float32


@pytest.fixture(autouse=True)
def allowed():
    """Products of f32 may be rounded to TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def run(function, *inputs, **options):
    torch._dynamo.reset()
    target = "auto" if inputs[0].is_cuda else "interpret"
    given = {"on_error": "raise", "target": target, "pipeline": PIPELINE, **options}
    return torch.compile(function, backend="bascule", options=given)(*inputs)


def rounded(x):
    """The numbers that are multiplied, in f64."""
    return tf32(x.cpu()).to(x.device).double() if x.is_floating_point() else x


def check(found, wanted, summed, scale=1.0):
    """The roundings of so many sums in f32, of terms about as large as 1."""
    assert found.dtype == F32 and found.shape == wanted.shape
    error = (found.double() - wanted).abs()
    allowed = scale * 2.0**-22 * summed + 2.0**-22 * wanted.abs() + 1e-6
    assert (error <= allowed).all(), float((error - allowed).max())


def test_rounding():
    """To 10 bits of fraction, ties away from 0; what exceeds the range is infinite, NaN stays."""
    finite = [1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-11 - 2.0**-23, 2.0**-136, 3.4028e38]
    x = torch.tensor([*finite, float("nan"), -float("inf")])
    wanted = [1 + 2.0**-10, -1 - 2.0**-10, 1.0, 2.0**-136, float("inf")]
    assert tf32(x)[:5].tolist() == wanted and tf32(x)[5].isnan() and tf32(x)[6] == -float("inf")


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(sizes):
    m, k, n = sizes
    x, w = matrices(F32, (m, k), (k, n))
    taken = rounded if k >= 16 else torch.Tensor.double  # shorter sums are none for tensor cores
    check(run(torch.matmul, x, w), taken(x) @ taken(w), k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_lie_otherwise(layout):
    x, w = matrices(F32, (60, 70), (70, 50))
    taken = torch.Tensor.double if layout == "expanded" else rounded  # equal rows are computed once, exactly
    check(run(LAYOUTS[layout], x, w), LAYOUTS[layout](taken(x), taken(w)), 70)


def test_batches_with_what_is_added():
    x, w, r = matrices(F32, (3, 40, 52), (3, 52, 36), (3, 40, 36))
    check(run(torch.baddbmm, r, x, w), torch.baddbmm(r.double(), rounded(x), rounded(w)), 52)


def test_where_it_is_not_allowed_products_are_exact():
    """The setting is asked at each compile, and a change of it compiles again."""
    x, w = matrices(F32, (60, 70), (70, 50))
    compiled = torch.compile(
        torch.matmul,
        backend="bascule",
        options={"on_error": "raise", "target": "interpret", "pipeline": PIPELINE},
    )
    exact = x.double() @ w.double()
    assert float((compiled(x, w).double() - exact).abs().max()) > 2.0**-12
    torch.set_float32_matmul_precision("highest")
    check(compiled(x, w), exact, 70)


def test_a_sum_of_products_that_is_no_call_is_exact():
    """The setting is about products of PyTorch's."""
    x, w = matrices(F32, (40, 70), (70, 50))
    check(run(lambda x, w: (x[:, :, None] * w).sum(1).relu(), x, w), (x.double() @ w.double()).relu(), 70)


@pytest.mark.parametrize("setting", ["cuda.matmul", ""])
def test_the_newer_setting(setting):
    """After it the older ones cannot be read."""
    code = f"""
import torch, bascule
from tests.lowering.triton.kernels.test_tf32 import PIPELINE, rounded, check
torch.backends.{setting + "." if setting else ""}fp32_precision = "tf32"
x, w = torch.randn(2, 32, 32)
options = {{"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}}
check(torch.compile(torch.matmul, backend="bascule", options=options)(x, w), rounded(x) @ rounded(w), 32)
"""
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", code], check=True)


def test_nan_and_infinities_go_where_they_belong():
    x, w = matrices(F32, (40, 52), (52, 32))
    x[3, 7], x[5, 49], w[0, 2] = float("nan"), float("inf"), -float("inf")
    found, wanted = run(torch.matmul, x, w), x.double() @ w.double()
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf())


def test_what_follows_is_in_the_kernel():
    x, w, b = matrices(F32, (40, 72), (56, 72), (56,))
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = run(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    assert bascule.counters()["kernels"]["launches"] - before == 1
    check(found, F.gelu(rounded(x) @ rounded(w).t() + b.double()), 72, scale=2)


def test_descriptors_load_what_lies_along_the_sum(descriptors):  # noqa: F811
    """A copy to TF32 rounds; what lies across it goes through registers."""
    x, w = matrices(F32, (64, 72), (56, 72))
    run(lambda x, w: x @ w.t(), x, w)
    run(lambda x, w: x @ w, x, w.t().contiguous())
    both, one = descriptors
    assert [each["element"] for each in both] == ["tf32", "tf32"] and [each["sizes"] for each in one] == [[64, 72]]


def grouped(x, y, offs):
    return torch.ops.bascule.grouped_mm(x, y, offs)


def factors(dtype, precision):
    """How factors of `dtype` are multiplied."""
    torch.set_float32_matmul_precision(precision)
    return rounded if dtype == F32 and precision == "high" else lambda x: x.double()


KINDS = [(F32, "high"), (F32, "highest"), (torch.float16, "high")]


def agrees(found, wanted, dtype, summed):
    error = (found.double() - wanted).abs()
    eps = 2.0**-11 if dtype == torch.float16 else 2.0**-22
    assert found.dtype == dtype and found.shape == wanted.shape
    assert (error <= eps * wanted.abs() + 2.0**-21 * summed + 1e-6).all(), float(error.max())


@pytest.mark.parametrize("dtype, precision", KINDS, ids=str)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups_of_rows(ends, dtype, precision):
    made, (x, w) = factors(dtype, precision), matrices(dtype, (80, 40), (len(ends), 40, 56))
    offs = offsets(*ends)
    agrees(run(grouped, x, w, offs), looped(made(x), made(w), offs), dtype, 40)
    turned = run(lambda x, w, o: grouped(x, w.transpose(1, 2), o), x, w.transpose(1, 2).contiguous(), offs)
    agrees(turned, looped(made(x), made(w), offs), dtype, 40)


@pytest.mark.parametrize("dtype, precision", KINDS, ids=str)
@pytest.mark.parametrize("ends", SUMS.values(), ids=SUMS)
def test_sums_in_groups(ends, dtype, precision):
    made, (x, y) = factors(dtype, precision), matrices(dtype, (300, 40), (300, 56))
    offs = offsets(*ends)
    agrees(run(lambda x, y, o: grouped(x.t(), y, o), x, y, offs), looped(made(x).t(), made(y), offs), dtype, 300)


def test_numbers_of_other_groups_stay_out():
    x, w = matrices(F32, (80, 40), (3, 40, 56))
    x[20:30], w[1] = float("nan"), float("inf")
    found = run(grouped, x, w, offsets(20, 30, 80))
    assert found[20:30].isnan().all() and not found[:20].isnan().any() and not found[30:].isnan().any()
    y = w.new_ones(80, 56)
    found = run(lambda x, y, o: grouped(x.t(), y, o), torch.where(x.isnan(), x, 1.0), y, offsets(20, 30, 80))
    assert found[1].isnan().all() and (found[0] == 20).all() and (found[2] == 50).all()


@pytest.mark.parametrize("ends", [(20, 10, 80), (20, 81, 81)], ids=str)
def test_offsets_that_are_no_rows(ends):
    x, w = matrices(F32, (80, 40), (3, 40, 56))
    with pytest.raises(Exception, match=r"grouped_mm.*(decrease|out of bounds)"):
        run(grouped, x, w, offsets(*ends), index_asserts=True)


# Inputs at which a kernel has whole tiles, and the product of them.
CODE = {
    "linear": ([(512, 128), (512, 128)], lambda x, w, o: F.gelu(x @ w.t())),
    "across": ([(512, 128), (128, 512)], lambda x, w, o: F.gelu(x @ w)),
    "groups": ([(512, 128), (4, 512, 128)], lambda x, w, o: F.silu(grouped(x, w.transpose(1, 2), o))),
    "groups across": ([(512, 128), (4, 128, 512)], grouped),
    "sums": ([(512, 128), (512, 512)], lambda x, y, o: grouped(x.t(), y, o)),
    "sums, the larger first": ([(512, 512), (512, 128)], lambda x, y, o: grouped(x.t(), y, o)),
    "sums of what lies along": ([(128, 512), (512, 512)], lambda x, y, o: grouped(x, y.t(), o)),
}


@pytest.mark.parametrize("name", CODE)
def test_machine_code(name, monkeypatch):
    """Tensor cores multiply, without waiting for each product before the next, and nothing of the sums leaves registers."""
    kernels, real = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, given: (kernels.append(kernel), real(kernel, given)))
    sizes, function = CODE[name]
    run(function, *matrices(F32, *sizes), offsets(100, 100, 300, 512))
    code = compile_kernel(kernels[-1], 90)
    assert "wgmma.mma_async.sync.aligned" in code.asm["ptx"] and ".f32.tf32.tf32" in code.asm["ptx"]
    assert ("cvt.rna.tf32" in code.asm["ptx"]) == (name not in ("linear", "groups"))
    told = ptxas.log(code.asm["ptx"], 90)
    # A last step of a group, which is masked, keeps its addresses in memory.
    spilled = int(re.search(r"(\d+) bytes spill stores", told)[1])
    assert spilled <= (80 if name.startswith("sums") else 0) and "serialized" not in told


def test_pieces_of_a_long_sum_are_rounded_too():
    """Where a GPU has few tiles, each program sums a piece, and a small kernel the pieces."""
    x, w = matrices(F32, (40, 8192), (8192, 48))
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = run(torch.matmul, x, w)
    assert bascule.counters()["kernels"]["launches"] - before == 2
    check(found, rounded(x) @ rounded(w), 8192)
