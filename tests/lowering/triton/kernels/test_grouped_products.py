"""Grouped products on tensor cores, in the interpreter: with what is fused to them, against a loop over the groups in f64."""

from itertools import pairwise

import pytest
import torch
from bascule.dialect.interpreter.errors import InterpreterError
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT
from tests.lowering.triton.kernels.test_contractions import EPS, matrices
from tests.lowering.triton.kernels.test_descriptors import descriptors  # noqa: F401  (a fixture)

PASS = "expand-grouped-products"
PIPELINE = ",".join(f"{PASS}{{always=true}}" if name == PASS else name for name in DEFAULT)


def offsets(*ends):
    return torch.tensor(ends, dtype=torch.int32)


def looped(x, w, offs):
    """The product, in f64 where the matrices are; rows after the last group are zeros."""
    result = x.new_zeros(x.shape[0], w.shape[2])
    first = 0
    for group, end in enumerate(offs.tolist()):
        result[first:end] = x[first:end] @ w[group]
        first = end
    return result


def product(x, w, offs):
    return torch._grouped_mm(x, w, offs=offs) if x.dtype != torch.float64 else looped(x, w, offs)


def run(function, *inputs, **options):
    """The results of `function` by tensor cores, in the interpreter where the inputs are on a CPU, and in f64 of the same numbers: one kernel,
    behind one that checks the offsets."""
    torch._dynamo.reset()
    target = "auto" if inputs[0].is_cuda else "interpret"
    given = {"on_error": "raise", "target": target, "pipeline": PIPELINE, **options}
    before = dict(bascule.counters().get("kernels", {}))
    found = torch.compile(function, backend="bascule", options=given)(*inputs)
    if not inputs[0].is_cuda:
        launches = 2 if given.get("index_asserts", True) else 1
        assert bascule.counters()["kernels"]["launches"] - before.get("launches", 0) == launches
    return found, function(*(x.double() if x.is_floating_point() else x for x in inputs))


def check(found, wanted, dtype, summed, scale=1.0):
    assert found.dtype == dtype and found.shape == wanted.shape
    error = (found.double() - wanted).abs()
    allowed = EPS[dtype] * wanted.abs() + scale * 2.0**-21 * summed + 1e-6
    assert (error <= allowed).all(), float((error - allowed).max())


ENDS = {
    "even": (20, 40, 60, 80),
    "ragged": (3, 40, 41, 80),
    "empty ones": (0, 0, 50, 50, 80, 80),
    "of one row": (1, 2, 3, 80),
    "all in the first": (80, 80, 80),
    "all in the last": (0, 0, 80),
    "one group": (80,),
    "none to some": (10, 30, 70),
    "no rows": (0, 0, 0),
    "many": tuple(range(0, 66, 2)),
}


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups(ends):
    x, w = matrices(torch.bfloat16, (80, 40), (len(ends), 40, 56))
    check(*run(product, x, w, offsets(*ends)), torch.bfloat16, 40)


@pytest.mark.parametrize("sizes", [(300, 64, 264), (700, 136, 72), (130, 16, 24)], ids=str)
def test_sizes(sizes):
    m, k, n = sizes
    x, w = matrices(torch.bfloat16, (m, k), (5, k, n))
    check(*run(product, x, w, offsets(7, m // 3, m // 3, m - 1, m)), torch.bfloat16, k)


LAYOUTS = {
    "w transposed": lambda x, w, o: product(x, w.transpose(1, 2).contiguous().transpose(1, 2), o),
    "x transposed": lambda x, w, o: product(x.t().contiguous().t(), w, o),
    "slices": lambda x, w, o: product(x[:, 8:48], w[:, 8:48, 8:], o),
    "every second matrix": lambda x, w, o: product(x, w[::2], o[:2]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrices_that_lie_otherwise(layout):
    x, w = matrices(torch.bfloat16, (72, 64), (3, 64, 56))
    torch._dynamo.reset()
    given = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    offs = offsets(20, 50, 72)
    found = torch.compile(LAYOUTS[layout], backend="bascule", options=given)(x, w, offs)
    check(found, LAYOUTS[layout](x.double(), w.double(), offs), torch.bfloat16, 64)


FUSED = {
    "silu": lambda x, w, v, b, s, o, e: F.silu(product(x, w, o)),
    "silu by a product": lambda x, w, v, b, s, o, e: F.silu(product(x, w, o)) * product(x, v, o),
    "silu by the half": lambda x, w, v, b, s, o, e: (lambda p: F.silu(p[:, :32]) * p[:, 32:])(product(x, w, o)),
    "chunks, gelu": lambda x, w, v, b, s, o, e: (lambda p: F.gelu(p[0]) * p[1])(product(x, w, o).chunk(2, -1)),
    "a bias of each group": lambda x, w, v, b, s, o, e: F.silu(product(x, w, o) + b[e]),
    "weights of rows": lambda x, w, v, b, s, o, e: product(x, w, o) * s[:, None],
    "a factor that is computed": lambda x, w, v, b, s, o, e: product(F.relu(x), w, o),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_is_fused_is_one_kernel(name):
    x, w, v, b, s = matrices(torch.bfloat16, (96, 72), (4, 72, 64), (4, 72, 64), (4, 64), (96,))
    groups = torch.tensor([0] * 10 + [2] * 60 + [3] * 26)
    found, wanted = run(FUSED[name], x, w, v, b, s, offsets(10, 10, 70, 96), groups)
    check(found, wanted, torch.bfloat16, 72, scale=64)


def test_numbers_of_other_groups_stay_out():
    x, w = matrices(torch.bfloat16, (80, 40), (3, 40, 56))
    x[20:30], w[1] = float("nan"), float("inf")
    found, wanted = run(product, x, w, offsets(20, 30, 80))
    assert torch.equal(found.isnan(), wanted.isnan())
    assert found[20:30].isnan().all() and not found[:20].isnan().any() and not found[30:].isnan().any()


def test_what_is_beyond_the_matrices_stays_out():
    large = torch.full((100, 96), float("nan"), dtype=torch.bfloat16)
    x, w = matrices(torch.bfloat16, (50, 72), (2, 72, 40))
    large[:50, :72] = x
    found, wanted = run(lambda large, w, o: product(large[:50, :72], w, o), large, w, offsets(31, 50))
    check(found, wanted, torch.bfloat16, 72)


@pytest.mark.parametrize("ends", [(20, 10, 80), (20, 81, 81), (-1, 10, 80), (80, 80, 79)], ids=str)
def test_offsets_that_are_no_rows(ends):
    x, w = matrices(torch.bfloat16, (80, 40), (3, 40, 56))
    with pytest.raises(Exception, match=r"_grouped_mm.*out of bounds"):
        run(product, x, w, offsets(*ends), index_asserts=True)


@pytest.mark.parametrize("ends", [(20, 10, 80), (20, 200, 80), (-7, 10, 80), (90, 5, -3), (-9, -8, -7)], ids=str)
def test_without_assertions_nothing_is_read_or_written_beyond(ends):
    """Rows in two groups are written twice, as one of both or the other."""
    x, w = matrices(torch.bfloat16, (80, 40), (3, 40, 56))
    torch._dynamo.reset()
    given = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE, "index_asserts": False}
    compiled = torch.compile(product, backend="bascule", options=given)
    try:
        compiled(x, w, offsets(*ends))
    except InterpreterError as error:
        assert "writes a place" in str(error) and list(ends) != sorted(ends)


@pytest.mark.parametrize("transposed", [False, True])
def test_tensor_descriptors(transposed, descriptors):  # noqa: F811
    x, w = matrices(torch.bfloat16, (64, 72), (3, 56, 72) if transposed else (3, 72, 56))
    run((lambda x, w, o: product(x, w.transpose(1, 2), o)) if transposed else product, x, w, offsets(10, 40, 64))
    one, other = descriptors[-1]
    assert one["sizes"] == [64, 72] and other["sizes"] == ([3, 56, 72] if transposed else [3, 72, 56])
    assert other["box"][0] == 1


def trained(function, *inputs):
    """The result of `function`, and the gradients of the inputs that are floats, of a fixed sum of it."""
    inputs = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    found = function(*inputs)
    weights = torch.linspace(-1, 1, found.numel(), dtype=torch.float64, device=found.device)
    found.backward(weights.reshape(found.shape).to(found.dtype))
    return [found.detach(), *(x.grad for x in inputs if x.is_floating_point())]


def experts(x, w, v, o):
    gate, up = product(x, w.transpose(1, 2), o).chunk(2, -1)
    return product(F.silu(gate) * up, v.transpose(1, 2), o)


def test_what_is_returned_in_parts_too():
    """A half that is returned lies in the memory of the product, as in eager."""
    torch._dynamo.reset()
    x, w = matrices(torch.bfloat16, (96, 64), (3, 64, 96))

    def both(x, w, o):
        whole = product(x, w, o)
        gate, up = whole.chunk(2, -1)
        return whole, gate, F.silu(gate) * up

    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    whole, gate, found = torch.compile(both, backend="bascule", options=options)(x, w, offsets(10, 11, 96))
    wanted = both(x.double(), w.double(), offsets(10, 11, 96))
    for one, other in zip((whole, gate), wanted):
        check(one, other, torch.bfloat16, 64)
    torch.testing.assert_close(found.double(), wanted[2], rtol=2.0**-6, atol=2.0**-6)
    assert gate.data_ptr() == whole.data_ptr() and gate.stride() == (96, 1)


def experts_apart(x, w, v, o):
    gate, up = (product(x, part.transpose(1, 2), o) for part in (w[:, :48], w[:, 48:]))
    return product(F.silu(gate) * up, v.transpose(1, 2), o)


@pytest.mark.parametrize("layer, launches", [(experts, 8), (experts_apart, 9)])
def test_training(layer, launches):
    """The forward stores what the backward needs, and both have their pointwise work in the kernels of products, two and
    four, or five where the matrices of the first are apart."""
    torch._dynamo.reset()
    inputs = *matrices(torch.bfloat16, (160, 64), (3, 2 * 48, 64), (3, 64, 48)), offsets(10, 11, 160)
    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = trained(torch.compile(layer, backend="bascule", options=options), *inputs)
    assert bascule.counters()["kernels"]["launches"] - before == launches and not bascule.counters()["aten"]
    exact = trained(layer, *(x.double() if x.is_floating_point() else x for x in inputs))
    eager = trained(layer, *inputs)
    for one, other, wanted in zip(found, eager, exact):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        error, eagers = (one.double() - wanted).abs(), (other.double() - wanted).abs()
        assert error.mean() <= 1.05 * eagers.mean() and error.max() <= 1.5 * eagers.max()


def sums(x, y, offs):
    """The products of the columns of x and y that a group's rows have, as of a gradient."""
    if x.dtype != torch.float64:
        return torch._grouped_mm(x.t(), y, offs=offs)
    starts = [0, *offs.tolist()]
    return torch.stack([x[first:end].t() @ y[first:end] for first, end in pairwise(starts)])


SUMS = {
    "ragged": (3, 130, 131, 300),
    "empty ones": (0, 0, 150, 150, 300, 300),
    "whole steps": (64, 128, 256),
    "all in the last": (0, 0, 300),
    "none to some": (10, 30, 170),
    "no rows": (0, 0, 0),
}


@pytest.mark.parametrize("ends", SUMS.values(), ids=SUMS)
def test_sums_in_groups(ends, descriptors):  # noqa: F811
    x, y = matrices(torch.bfloat16, (300, 40), (300, 56))
    found, wanted = run(sums, x, y, offsets(*ends))
    check(found, wanted, torch.bfloat16, 300)
    assert [each["sizes"] for each in descriptors[-1]] == [[300, 40], [300, 56]]


def test_sums_in_groups_of_numbers_that_are_none():
    """Steps end where groups do: NaN and infinity on the other side are in no sum."""
    x, y = matrices(torch.bfloat16, (300, 40), (300, 56))
    x[100:150, 3], y[100:150, 5] = float("nan"), float("inf")
    found, wanted = run(sums, x, y, offsets(100, 150, 300))
    assert torch.equal(found.isfinite(), wanted.isfinite()) and found[0].isfinite().all() and found[2].isfinite().all()


def test_sums_in_groups_with_what_reads_them():
    x, y = matrices(torch.bfloat16, (300, 40), (300, 56))
    found, wanted = run(lambda x, y, o: sums(x, y, o) * 2 + 1, x, y, offsets(70, 71, 300))
    check(found, wanted, torch.bfloat16, 600)


@pytest.mark.parametrize("ends", [(20, 10, 300), (20, 301, 301), (-1, 10, 300)], ids=str)
def test_offsets_of_sums_that_are_none(ends):
    x, y = matrices(torch.bfloat16, (300, 40), (300, 56))
    with pytest.raises(Exception, match=r"_grouped_mm.*out of bounds"):
        run(sums, x, y, offsets(*ends), index_asserts=True)
    torch._dynamo.reset()
    given = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE, "index_asserts": False}
    torch.compile(sums, backend="bascule", options=given)(x, y, offsets(*ends))


# Inputs at which a kernel has whole tiles, and the product of them.
CODE = {
    "silu": ([(512, 128), (4, 128, 512)], lambda x, w, o: F.silu(product(x, w, o))),
    "halves": (
        [(512, 128), (4, 128, 512)],
        lambda x, w, o: (lambda p: F.silu(p[0]) * p[1])(product(x, w, o).chunk(2, -1)),
    ),
    "sums": ([(512, 128), (512, 512)], sums),
}


@pytest.mark.parametrize("name", CODE)
def test_machine_code(name, monkeypatch):
    """Tensor cores multiply what descriptors load, and registers hold the sums."""
    kernels, real = [], plans.run_kernel
    monkeypatch.setattr(
        plans, "run_kernel", lambda kernel, arguments: (kernels.append(kernel), real(kernel, arguments))
    )
    sizes, function = CODE[name]
    run(function, *matrices(torch.bfloat16, *sizes), offsets(100, 100, 300, 512))
    kernel = kernels[-1]
    code = compile_kernel(kernel, 90)
    assert "wgmma.mma_async" in code.asm["ptx"] and "cp.async.bulk.tensor" in code.asm["ptx"]
    told = ptxas.log(code.asm["ptx"], 90)
    assert " 0 bytes spill stores" in told and "serialized" not in told


def test_the_model_chooses():
    """With more tiles than there are multiprocessors, and so short sums that writing and reading the result takes longer."""
    torch._dynamo.reset()
    x, w = matrices(torch.bfloat16, (2048, 64), (8, 4104, 64))
    ends = offsets(100, 300, 300, 1000, 1100, 1700, 1900, 2048)

    def layer(x, w, o):
        return F.silu(product(x, w.transpose(1, 2), o))

    before = dict(bascule.counters().get("aten", {}))
    options = {"on_error": "raise", "target": "interpret", "pipeline": ",".join(DEFAULT)}
    found = torch.compile(layer, backend="bascule", options=options)(x, w, ends)
    assert bascule.counters()["aten"] == before
    check(found, layer(x.double(), w.double(), ends), torch.bfloat16, 64, scale=8)


@pytest.mark.parametrize("ends", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("one", [False, True])
def test_sums_in_groups_along_memory(ends, one, descriptors):  # noqa: F811
    """Boxes of descriptors begin at multiples of 16 bytes, wherever groups do: the interpreter stops at others, as the hardware does."""
    x, y = matrices(torch.bfloat16, (40, 304), (304, 56))
    along = y if one else y.t().contiguous().t()
    multiply = torch.ops.bascule.grouped_mm
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    found = torch.compile(lambda x, y, o: multiply(x, y, o), backend="bascule", options=options)(
        x, along, offsets(*ends)
    )
    starts = [0, *ends]
    exact = torch.stack([x.double()[:, a:b] @ y.double()[a:b] for a, b in pairwise(starts)])
    check(found, exact, torch.bfloat16, 304)
    assert any(descriptors)


@pytest.mark.parametrize("ends", [(3, 70, 71, 130), (8, 16, 16, 130), (1, 2, 3, 4)], ids=str)
def test_rows_that_memory_runs_along(ends):
    """Their tiles begin where groups do, at no multiple of 16 bytes."""
    x, w = matrices(torch.bfloat16, (136, 64), (4, 64, 72))
    along = x.t().contiguous().t()
    found, _ = run(lambda x, w, o: torch.ops.bascule.grouped_mm(x, w, o), along, w, offsets(*ends))
    check(found, looped(x.double(), w.double(), offsets(*ends)), torch.bfloat16, 64)
