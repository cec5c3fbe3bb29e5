"""The rules of reductions, scans and tensors made of their indices."""

import math
import subprocess
import sys

import pytest
import torch

from tests.frontend.checking import INTEGERS, aten, check

# -- reductions ---------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum(1, dtype=torch.float64)),
    "mean": lambda x: (x.mean(), x.mean(-1), x.mean((0, 2), keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(1, keepdim=True)),
    "amax": lambda x: (x.amax(), x.amax(1), x.amin((0, 2), keepdim=True), x.max(), x.min()),
    "max": lambda x: (*x.max(1), *x.min(-1, keepdim=True), *aten.aminmax(x, dim=0)),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True), x.argmin()),
    "any": lambda x: ((x > 1).any(), (x > 1).all(1), x.any((0, 2)), x.all(), x.count_nonzero(), x.count_nonzero(1)),
    "var": lambda x: (
        x.var(),
        x.var(1, correction=0),
        x.std((0, 2), keepdim=True),
        *torch.var_mean(x, 1, correction=2.5),
    ),
    "norm": lambda x: tuple(torch.linalg.vector_norm(x, p, 1) for p in (0, 1, 2, 3, 0.5, math.inf, -math.inf)),
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)),
    "nansum": lambda x: (x.nansum(), x.nansum(1)),
    "softmax": lambda x: (torch.softmax(x, 1), torch.log_softmax(x, -1), torch.softmax(x, 0, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_reductions_of_floats(name, dtype):
    x = torch.randn(3, 7, 5).to(dtype)
    check(REDUCTIONS[name], x, **({"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}))
    if dtype == torch.float32:
        x[0, 1, 2] = math.nan
        if name != "var":  # whose mean eager gets wrong: NaN for infinity
            x[1, 2, 3], x[2, 3, 0] = math.inf, -math.inf
        check(REDUCTIONS[name], x)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
def test_reductions_of_integers(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (3, 7, 5)).to(dtype)
    x[0, 0, 0] = False if dtype == torch.bool else torch.iinfo(dtype).max
    check(lambda x: (x.sum(), x.sum(1), x.prod(1), x.any(), x.all(1), x.count_nonzero(1)), x)
    check(lambda x: (x.sum(1, dtype=torch.int32), x.amax(1), x.amin(), *x.max(2), *x.min(0)), x)
    if dtype != torch.bool:
        check(lambda x: (x.argmax(), x.argmin(1), x.sum(1, dtype=torch.float32)), x)


def test_reductions_of_nothing_and_of_scalars():
    empty, scalar = torch.empty(3, 0), torch.tensor(2.5)
    check(lambda x: (x.sum(), x.sum(1), x.prod(1), x.mean(1), x.any(1), x.all(1), *torch.var_mean(x, 1)), empty)
    check(lambda x: (x.sum(0), x.mean(), x.amax(-1), x.argmax(), *x.max(0), x.cumsum(0), *x.cummax(0)), scalar)
    check(lambda x: (x.cumsum(0), x.cumprod(1), x.logcumsumexp(1), x.half().cumsum(1), x.softmax(1)), empty)
    check(lambda x: (torch.softmax(x, 0), x.logsumexp(0), torch.var_mean(x, correction=0)[1]), scalar)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_backward(dim):
    grad, x = torch.randn(4, 5, 6), torch.randn(4, 5, 6)
    check(lambda g, x: aten._softmax_backward_data(g, torch.softmax(x, dim), dim, torch.float32), grad, x)
    check(lambda g, x: aten._log_softmax_backward_data(g, torch.log_softmax(x, dim), dim, torch.float32), grad, x)


def test_safe_softmax_of_a_row_of_minus_infinities():
    x = torch.randn(3, 4)
    x[1], x[2, 0] = -math.inf, -math.inf
    check(lambda x: aten._safe_softmax(x, -1), x)


# -- scans --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
def test_scans(dtype):
    x = torch.randint(-3, 4, (4, 9, 3)).to(dtype)
    check(lambda x: (x.cumsum(1), x.cumprod(-1), x.cumsum(0, dtype=torch.float64)), x)
    check(lambda x: (*x.cummax(1), *x.cummin(0)), x)
    if dtype.is_floating_point:
        check(lambda x: x.logcumsumexp(1), x)


def test_running_extremes_with_nan():
    x = torch.tensor([1.0, 3.0, 3.0, 2.0, math.nan, 5.0, math.nan, 1.0])
    check(lambda x: (*x.cummax(0), *x.cummin(0)), x)


# -- creation -----------------------------------------------------------------------------------------------------------


def test_creation():
    def create(x):
        return (
            torch.full((2, 3), 1.5),
            torch.arange(5),
            torch.arange(1.0, 2.0, 0.3),
            torch.arange(10, 0, -3, dtype=torch.float32),
            torch.eye(3, 4),
            torch.linspace(-1, 2, 7),
            torch.linspace(0, 9, 4, dtype=torch.int64),
            torch.arange(2.1, -2.9, -1.0, dtype=torch.int64),  # from 2
            torch.arange(0.1, -7.9, -4.2, dtype=torch.int32),
            torch.linspace(4.3, -3.9, 50, dtype=torch.int64),  # from 4 to -3
            torch.logspace(1.5, 3.7, 5, base=2.0, dtype=torch.int64),
            torch.logspace(0, 2, 5),
            torch.zeros_like(x),
            torch.ones_like(x, dtype=torch.bool),
            torch.full_like(x, 7),
            x.tril(),
            x.triu(1),
            x.tril(-1),
            aten.fill.Scalar(x, 2.0),
        )

    check(create, torch.randn(3, 4, 5))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_mean_of_one_element_is_that_element(dim, dynamic):
    torch._dynamo.reset()
    row = torch.tensor([1.5, math.inf, -math.inf, math.nan, -2.25, 1e30, *range(20)])
    compiled = torch.compile(lambda x: torch.var_mean(x, dim, correction=0), backend="bascule", dynamic=dynamic)
    for got, want in zip(compiled(row.unsqueeze(dim)), torch.var_mean(row.unsqueeze(dim), dim, correction=0)):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


OVER_NONE = {
    "sum": lambda x: x.sum(()),
    "nansum": lambda x: x.nansum(()),
    "nansum, kept": lambda x: torch.nansum(x, (), keepdim=True),
    "nanmean": lambda x: x.nanmean(()),
    "mean": lambda x: x.mean(()),
    "amax": lambda x: x.amax(()),
    "any": lambda x: torch.any(x > 0, ()),
    "all": lambda x: torch.all(x > 0, ()),
    "logsumexp": lambda x: x.logsumexp(()),
    "var_mean": lambda x: torch.var_mean(x, ()),
    "norm": lambda x: torch.linalg.vector_norm(x, 2, ()),
    "count_nonzero": lambda x: torch.count_nonzero(x, ()),
}


@pytest.mark.parametrize("size", [(), (1,), (3,), (2, 3), (0,), (1, 0)], ids=str)
@pytest.mark.parametrize("name", OVER_NONE)
def test_an_empty_list_of_dimensions(name, size):
    """It is all of them, none, or refused, as eager has it."""
    function, x = OVER_NONE[name], torch.randn(size)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    try:
        want = function(x)
    except (RuntimeError, IndexError) as refusal:
        with pytest.raises(type(refusal)):
            compiled(x)
        return
    torch.testing.assert_close(compiled(x), want, equal_nan=True)


FIRST = """
import torch
x = torch.randn(3)
assert torch.compile(lambda x: x.nansum(()), backend="bascule")(x).shape == ()
print("a scalar")
"""


def test_what_dynamo_traced_first_is_right_too():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)
    assert done.stdout == "a scalar\n", done.stderr
