"""Products of one row or column, and outer products, are kernels on a GPU; others stay calls. Held against f64."""

import pytest
import torch
import torch.nn.functional as F

import bascule
from bascule.pipelines import DEFAULT

OPTIONS = {"target": "interpret", "on_error": "raise", "cache": False}
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.5e-2, torch.float32: 1e-6, torch.float64: 1e-14}
FLOATS = list(TOLERANCES)


def check(function, *given, options=None, **compiling):
    compiled = torch.compile(function, backend="bascule", options={**OPTIONS, **(options or {})}, **compiling)
    mine = compiled(*given)
    exact = function(*[x.double() if torch.is_tensor(x) else x for x in given])
    for got, want in zip(*((r,) if torch.is_tensor(r) else r for r in (mine, exact)), strict=True):
        assert got.shape == want.shape
        scale = want.abs().max().item()
        off = (got.double() - want).abs().max().item()
        assert off <= TOLERANCES[got.dtype] * scale, f"{off} of {scale}"


def called(function, *given, **options):
    """The ATen operators that a graph calls, and its remarks."""
    (graph,) = bascule.explain(function, *given, options={**OPTIONS, **options}).graphs
    return [line.strip() for line in graph.wrapper.splitlines() if "# aten." in line], graph.remarks


INNER = (1, 16, 100, 1001, 2048, 5632)


@pytest.mark.parametrize(
    ("inner", "dtype"), [(k, dtype) for i, k in enumerate(INNER) for j, dtype in enumerate(FLOATS) if (i + j) % 2]
)
def test_one_row(inner, dtype):
    x, w = torch.randn(1, inner, dtype=dtype), torch.randn(72, inner, dtype=dtype)
    check(F.linear, x, w)
    assert called(F.linear, x, w)[0] == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_follows_is_in_the_kernel(dtype):
    def function(x, gate, up, bias, before):
        return F.silu(F.linear(x, gate, bias)) * F.linear(x, up) + before

    given = [torch.randn(*size, dtype=dtype) for size in ((1, 1, 256), (320, 256), (320, 256), (320,), (1, 1, 320))]
    check(function, *given)
    (graph,) = bascule.explain(function, *given, options=OPTIONS).graphs
    assert len([line for line in graph.wrapper.splitlines() if line.startswith('    ("')]) == 1


def test_layers_after_each_other():
    def function(x, scale, w1, w2):
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * scale
        return x + F.linear(F.relu(F.linear(y, w1)), w2)

    given = [torch.randn(*size, dtype=torch.bfloat16) for size in ((1, 384), (384,), (512, 384), (384, 512))]
    check(function, *given)
    assert called(function, *given)[0] == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_column(dtype):
    w, x = torch.randn(96, 200, dtype=dtype), torch.randn(200, 1, dtype=dtype)
    check(torch.mm, w, x)
    assert called(torch.mm, w, x)[0] == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_factors_and_what_is_added(dtype):
    def function(bias, x, w, batch, y, z):
        return torch.addmm(bias, x, w.t(), beta=0.5, alpha=3), torch.baddbmm(batch, y, z.mT, beta=2, alpha=-1)

    sizes = (48,), (1, 64), (48, 64), (3, 1, 48), (3, 1, 64), (3, 48, 64)
    given = [torch.randn(*size, dtype=dtype) for size in sizes]
    check(function, *given)
    assert called(function, *given)[0] == []


def test_what_is_added_times_zero_is_not_read():
    bias, x, w = torch.full((48,), float("nan")), torch.randn(1, 64), torch.randn(48, 64)
    compiled = torch.compile(lambda *a: torch.addmm(a[0], a[1], a[2].t(), beta=0), backend="bascule", options=OPTIONS)
    torch.testing.assert_close(compiled(bias, x, w), x @ w.t())


@pytest.mark.parametrize("dtype", FLOATS)
def test_outer_products(dtype):
    def function(x, y, a, b):
        return torch.outer(x, y) + 1, torch.mm(a, b), (a[None] @ b[None]).cos()

    given = [torch.randn(*size, dtype=dtype) for size in ((30,), (50,), (40, 1), (1, 24))]
    check(function, *given)
    assert called(function, *given)[0] == []


def test_outer_products_of_dynamic_sizes():
    def function(a, b):
        return torch.mm(a, b).sin()

    compiled = torch.compile(function, backend="bascule", options=OPTIONS, dynamic=True)
    for rows in (5, 9):
        a, b = torch.randn(rows, 1), torch.randn(1, 2 * rows)
        torch.testing.assert_close(compiled(a, b), function(a, b))


def test_rounded_once_unless_asked_for_eager():
    sizes = (1, 64), (48, 64), (1, 48)
    x, w, y = (torch.randint(-99, 100, size).bfloat16() for size in sizes)  # so that sums are exact in f32

    def function(x, w, y):
        return F.linear(x, w) * y

    eager = torch.compile(function, backend="bascule", options={**OPTIONS, "numerics": "eager"})
    rounded = (x.double() @ w.double().t()).bfloat16()
    torch.testing.assert_close(eager(x, w, y), rounded * y, rtol=0, atol=0)
    check(function, x, w, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(dtype):
    def loss(x, w, b):
        return F.linear(x, w, b).tanh().sum()

    given = [torch.randn(*size, dtype=dtype, requires_grad=True) for size in ((1, 64), (40, 64), (40,))]
    torch.compile(loss, backend="bascule", options=OPTIONS)(*given).backward()
    exact = [x.detach().double().requires_grad_() for x in given]
    loss(*exact).backward()
    for mine, want in zip(given, exact):
        torch.testing.assert_close(mine.grad.double(), want.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "x, w, why",
    [
        ((4, 64), (48, 64), "few rows stays a call: it has 4"),
        ((32, 64), (48, 64), None),
    ],
)
def test_what_stays_a_call(x, w, why):
    given = torch.randn(*x), torch.randn(*w)
    calls, remarks = called(F.linear, *given)
    assert len(calls) == 1
    assert [why in str(remark) for remark in remarks] == ([True] if why else [])
    check(F.linear, *given)


def test_memory_across_what_is_summed_stays_a_call():
    given = torch.randn(1, 64), torch.randn(64, 48)
    calls, remarks = called(torch.mm, *given)
    assert len(calls) == 1 and any("memory does not run along" in str(remark) for remark in remarks)


def test_empty_products():
    for x, w in (((1, 0), (8, 0)), ((1, 8), (0, 8)), ((0, 8), (4, 8))):
        given = torch.randn(*x), torch.randn(*w)
        torch._dynamo.reset()
        torch.testing.assert_close(
            torch.compile(F.linear, backend="bascule", options=OPTIONS)(*given), F.linear(*given)
        )


def test_on_a_cpu_all_stay_calls():
    given = torch.randn(1, 64), torch.randn(48, 64)
    assert len(called(F.linear, *given, target="cpu")[0]) == 1


def test_products_of_one_row_by_several_matrices_are_one_launch():
    def attend(x, q, k, v):
        return F.linear(x, q), F.linear(x, k) * 2, F.linear(x, v)

    given = [torch.randn(*size, dtype=torch.bfloat16) for size in ((1, 256), (192, 256), (96, 256), (96, 256))]
    check(attend, *given)
    (graph,) = bascule.explain(attend, *given, options=OPTIONS).graphs
    assert len([line for line in graph.wrapper.splitlines() if line.startswith('    ("')]) == 1


ROWS = ",".join("expand-products{rows=4}" if name == "expand-products" else name for name in DEFAULT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_few_rows(dtype, rows):
    def function(x, w, bias, batch, y):
        return F.silu(F.linear(x, w, bias)) * 2, w @ x.t(), batch @ y.mT

    sizes = (rows, 256), (320, 256), (320,), (2, rows, 64), (2, 48, 64)
    given = [torch.randn(*size, dtype=dtype) for size in sizes]
    check(function, *given, options={"pipeline": ROWS})
    assert called(function, *given, pipeline=ROWS)[0] == []
