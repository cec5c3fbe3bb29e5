"""Decompositions of operators that are not PyTorch's: what is declared is compiled in their place; grouped products among them."""

import pytest
import torch
from bascule.frontend.aot import declared_decompositions
from bascule.frontend.aot.grouped_products import is_loop
from torch.nn import functional as F

import bascule
from bascule.compat.operators.custom_operators import OPDEFS
from bascule.pipelines import DEFAULT
from tests.lowering.triton.kernels.test_tf32 import looped

SCHEMA = "(Tensor x, float by) -> Tensor"


@pytest.fixture
def operator(monkeypatch):
    """A custom operator, and the calls that it got."""
    monkeypatch.setattr(declared_decompositions, "_USERS", {})
    library, calls = torch.library.Library("declared", "DEF"), []
    library.define(f"scaled{SCHEMA}")

    def scaled(x, by):
        calls.append(by)
        return x * by

    library.impl("scaled", scaled, "CompositeExplicitAutograd")
    torch.library.register_fake("declared::scaled", lambda x, by: torch.empty_like(x), lib=library)
    yield calls
    library._destroy()


def call(x):
    return torch.ops.declared.scaled(x, 3.0).relu() + 1


def compiled(function=call, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", options={"on_error": "raise", **options})


@pytest.mark.parametrize("given", [{}, {"schema": SCHEMA}, {"schema": "( Tensor x,float by )->Tensor"}], ids=str)
def test_it_is_compiled_in_the_operators_place(operator, given):
    bascule.register_decomposition("declared::scaled", lambda x, by: x * by, **given)
    x = torch.randn(5, 7)
    explained = bascule.explain(call, x)
    assert torch.equal(compiled()(x), (x * 3).relu() + 1) and not operator[1:]  # eager's own call is the first
    assert len(explained.graphs[0].kernels) == 1 and not explained.graphs[0].aten


def test_as_a_decorator_of_an_overload(operator):
    @bascule.register_decomposition("declared::scaled.default", schema=SCHEMA)
    def scaled(x, by):
        return x * by

    assert torch.equal(compiled()(torch.ones(3)), torch.full((3,), 4.0)) and not operator
    assert scaled(2, 3) == 6


def test_where_it_does_not_stand_for_the_operator_that_is_called(operator):
    bascule.register_decomposition("declared::scaled", lambda x, by: x * by if x.dim() == 2 else NotImplemented)
    one, two = torch.randn(4), torch.randn(4, 4)
    assert torch.equal(compiled()(one), (one * 3).relu() + 1) and len(operator) == 1
    assert torch.equal(compiled()(two), (two * 3).relu() + 1) and len(operator) == 1


def test_another_schema_is_refused_or_has_none(operator):
    with pytest.raises(ValueError, match="has another schema"):
        bascule.register_decomposition("declared::scaled", lambda x: x, schema="(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="no operator 'declared::other' is defined"):
        bascule.register_decomposition("declared::other", lambda x: x)
    with pytest.raises(ValueError, match="writes to arguments"):
        bascule.register_decomposition("aten::relu_", lambda x: x)
    # One that is defined afterwards, as another.
    declared_decompositions._USERS["declared::scaled"] = declared_decompositions.Declared(
        lambda x: x, "(Tensor x) -> Tensor"
    )
    assert torch.equal(compiled()(torch.ones(3)), torch.full((3,), 4.0)) and len(operator) == 1


def test_without_a_version_traces_are_not_kept(operator):
    bascule.register_decomposition("declared::scaled", lambda x, by: x * by)
    assert declared_decompositions.key_text() == ("declared::scaled", [["declared::scaled", SCHEMA, ""]])
    before = dict(bascule.counters()["traces"])
    compiled()(torch.ones(3))
    told = "bypass: the decomposition of 'declared::scaled' has no version"
    assert bascule.counters()["traces"].get(told, 0) == before.get(told, 0) + 1
    bascule.register_decomposition("declared::scaled", lambda x, by: x * by, version="1")
    assert declared_decompositions.key_text() == (None, [["declared::scaled", SCHEMA, "1"]])


PIECES = "(Tensor x, Tensor w, Tensor ends, float by=2.0) -> Tensor"


@pytest.fixture
def looping(monkeypatch):
    """An operator whose gradients are a loop that looks at data; how often it ran. The context has no offsets in the order of the arguments."""
    monkeypatch.setattr(declared_decompositions, "_USERS", {})
    runs = []

    @torch.library.custom_op("declared::pieces", mutates_args=(), schema=PIECES)
    def pieces(x, w, ends, by=2.0):
        out, start = torch.zeros_like(x), 0
        for i, end in enumerate(ends.tolist()):
            out[start:end], start = x[start:end] * w[i] * by, end
        return out

    def setup(ctx, inputs, output):
        x, w, ctx.ends, ctx.scale = inputs
        ctx.save_for_backward(w, x)

    def formula(ctx, gradient):
        runs.append(1)
        w, x = ctx.saved_tensors
        gx, gw, start = torch.zeros_like(x), torch.zeros_like(w), 0
        for i, end in enumerate(ctx.ends.tolist()):
            gx[start:end] = gradient[start:end] * w[i] * ctx.scale
            gw[i], start = (gradient[start:end] * x[start:end]).sum(0) * ctx.scale, end
        return gx, gw, None, None

    torch.library.register_fake("declared::pieces", lambda x, w, ends, by=2.0: torch.empty_like(x), lib=pieces._lib)
    torch.library.register_autograd("declared::pieces", formula, setup_context=setup, lib=pieces._lib)
    yield runs
    pieces._lib._destroy()
    OPDEFS.pop("declared::pieces", None)


def members(x, w, ends):
    """Of which group each row is, a column a group."""
    rows = torch.arange(x.shape[0])[:, None]
    return ((rows < ends) & (rows >= torch.cat([ends.new_zeros(1), ends[:-1]]))).to(x.dtype)


def in_pieces(x, w, ends, by=2.0):
    return x * (members(x, w, ends) @ w) * by


def gradients_in_pieces(x, w, ends, by, gradient):
    groups = members(x, w, ends)
    return gradient * (groups @ w) * by, groups.t() @ (gradient * x) * by, None, None


def called(x, w, ends):
    return (torch.ops.declared.pieces(x.sin(), w.t(), ends) * 3).tanh()


def trained_pieces(function, needs=(True, True)):
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(11, 6, generator=generator), torch.randn(6, 4, generator=generator)
    x.requires_grad_(needs[0]), w.requires_grad_(needs[1])
    function(x, w, torch.tensor([3, 3, 7, 10])).pow(2).sum().backward()
    return [each.grad for each in (x, w) if each.requires_grad]


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)], ids=str)
def test_gradients_that_are_declared_stand_for_a_formula_that_looks_at_data(looping, needs):
    bascule.register_decomposition("declared::pieces", in_pieces, gradients=gradients_in_pieces)
    wanted = trained_pieces(called, needs)
    del looping[:]
    before = bascule.counters().get("aten", {}).copy()
    found = trained_pieces(compiled(called), needs)
    made = {name for name, n in bascule.counters().get("aten", {}).items() if n > before.get(name, 0)}
    assert not any("gradient_of" in name or "pieces" in name for name in made), made
    # Once, while it is traced: as far as it looks at data.
    assert len(looping) == 1
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


@pytest.mark.parametrize("declared", [None, lambda x, w, ends, by, gradient: NotImplemented], ids=["none", "refused"])
def test_without_gradients_the_formula_runs(looping, declared):
    bascule.register_decomposition("declared::pieces", in_pieces, gradients=declared)
    wanted = trained_pieces(called)
    del looping[:]
    found = trained_pieces(compiled(called))
    assert len(looping) == 2  # traced, and run
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "declared, told",
    [
        (lambda x, w, ends, by, gradient: (x, w), r"2 gradients are declared of the 4 arguments of 'declared::pieces'"),
        (lambda x, w, ends, by, gradient: (x, x, None, None), r"is of \(11, 6\) and torch.float32, not of \(4, 6\)"),
    ],
    ids=["number", "sizes"],
)
def test_gradients_that_cannot_be_right_are_refused(looping, declared, told):
    bascule.register_decomposition("declared::pieces", in_pieces, gradients=declared)
    with pytest.raises(Exception, match=told):
        trained_pieces(compiled(called))


def test_a_gradient_that_is_none_is_zeros(looping):
    bascule.register_decomposition(
        "declared::pieces", in_pieces, gradients=lambda *given: (gradients_in_pieces(*given)[0], None, None, None)
    )
    wanted, found = trained_pieces(called), trained_pieces(compiled(called))
    torch.testing.assert_close(found[0], wanted[0])
    assert not found[1].any()


PIPELINE = ",".join(DEFAULT)
WITHOUT = ",".join(name for name in DEFAULT if name != "expand-grouped-products")
GROUPED = {"target": "interpret", "pipeline": PIPELINE}


@pytest.fixture(params=["operator", "formula"])
def experts(request, monkeypatch):
    """The operators of `transformers`, with products in TF32 allowed. The gradients are an operator, as in its versions from 5.18 on, or a
    formula that looks at data, as before. Gives the names of the operators that are called."""
    moe = pytest.importorskip("transformers.integrations.moe")
    as_operator = hasattr(torch.ops.transformers, "grouped_mm_fallback_backward")
    if request.param == "operator" and not as_operator:
        pytest.skip("this version of transformers has no operator for gradients")
    if request.param == "formula" and as_operator:
        definition = OPDEFS["transformers::grouped_mm_fallback"]
        monkeypatch.setattr(
            definition,
            "_backward_fn",
            lambda ctx, g: (*moe._grouped_mm_fallback_bwd(*ctx.saved_tensors, ctx.offs, g), None),
        )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    gradients = (
        "bascule.gradient_of.default"
        if request.param == "formula"
        else "transformers.grouped_mm_fallback_backward.default"
    )
    yield {"transformers.grouped_mm_fallback.default", gradients}
    torch.set_float32_matmul_precision(before)


def layer(x, w, v, o):
    multiply = torch.ops.transformers.grouped_mm_fallback
    gate, up = multiply(x, w.transpose(1, 2), o).chunk(2, -1)
    return multiply(F.silu(gate) * up, v, o)


def exact(x, w, v, o):
    gate, up = looped(x, w.transpose(1, 2), o).chunk(2, -1)
    return looped(F.silu(gate) * up, v, o)


def trained(function, *inputs):
    inputs = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    found = function(*inputs)
    seed = torch.linspace(-1, 1, found.numel(), dtype=found.dtype, device=found.device)
    found.backward(seed.reshape(found.shape))
    return [found.detach(), *(x.grad for x in inputs if x.is_floating_point())]


def inputs(dtype=torch.float32, kind=torch.int32):
    """Rows 290 to 300 are in no group, and one group is empty."""
    generator = torch.Generator().manual_seed(0)
    sizes = (300, 64), (4, 2 * 48, 64), (4, 48, 64)
    return *(torch.randn(*size, generator=generator).to(dtype) / 4 for size in sizes), torch.tensor(
        [70, 71, 71, 290], dtype=kind
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=str)
def test_the_experts_of_transformers_are_kernels(experts, dtype, kind):
    """Forward and backward, with the zeros of rows that are in no group, in the strides of eager."""
    given = inputs(dtype, kind)
    before = dict(bascule.counters().get("aten", {}))
    found = trained(compiled(layer, **GROUPED), *given)
    assert bascule.counters().get("aten", {}) == before
    wanted = trained(exact, *(x.double() if x.is_floating_point() else x for x in given))
    eager = trained(layer, *given)
    eps = 2.0**-10 if dtype == torch.float32 else torch.finfo(dtype).eps
    for one, other, each in zip(found, eager, wanted):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        error = (one.double() - each).abs()
        assert error.max() <= 4 * eps * each.abs().max() and error.mean() <= 2 * eps * each.abs().mean()
    assert not found[0][290:].any() and not found[1][290:].any() and not found[2][2].any() and not found[3][2].any()


def operators_of(function, given, **options):
    """The ATen functions that are called."""
    before = bascule.counters().get("aten", {}).copy()
    found = trained(compiled(function, **options), *given)
    return found, {name.partition(":")[0] for name, n in bascule.counters()["aten"].items() if n > before.get(name, 0)}


@pytest.mark.parametrize(
    "options",
    [{}, {"target": "interpret", "pipeline": WITHOUT}, {"target": "cpu", "pipeline": PIPELINE}],
    ids=["cpu", "no pass", "cpu, pass"],
)
def test_where_there_are_no_kernels_the_operator_is_called(experts, options):
    found, called = operators_of(layer, inputs(), **options)
    assert called >= experts
    for one, other in zip(found, trained(layer, *inputs())):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_a_kernel_would_take_longer_for_is_called(experts):
    """Without tensor cores, where products are large; so are sizes that change, other dtypes, and groups that are too small."""
    torch.set_float32_matmul_precision("highest")
    _, w, v, o = inputs()
    large = torch.zeros(1 << 15, 64), w.new_zeros(4, 8192, 64), v.new_zeros(4, 4096, 64), o
    assert is_loop(large[0], large[1].transpose(1, 2)) and not is_loop(inputs()[0], w.transpose(1, 2))
    _, called = operators_of(layer, [x.double() if x.is_floating_point() else x for x in inputs()], **GROUPED)
    assert called >= experts
    _, called = operators_of(layer, (inputs()[0][:, :8].contiguous(), w[..., :8].contiguous(), v, o), **GROUPED)
    assert called >= experts


def test_sizes_that_change(experts):
    function = compiled(layer, **GROUPED)
    for rows in (300, 310, 320):
        x, w, v, o = inputs()
        x = torch.cat([x, x[: rows - 300]])
        torch.testing.assert_close(function(x, w, v, o), layer(x, w, v, o), rtol=1e-2, atol=1e-2)
