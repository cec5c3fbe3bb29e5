"""Assertions about numbers and sizes that data decides hold in compiled graphs: what is not as asserted raises."""

import pytest
import torch

from tests.frontend.against_eager import check, cut_at


def number(x, y):
    n = x.sum().item()
    torch._check(n == 4)
    return y * n


def size(x, y):
    n = x.sum().item()
    torch._check(n == y.size(0))
    return torch.ones(n) + y


def two_numbers(x, y):
    m, n = x.tolist()
    torch._check(m == n)
    return torch.zeros(m) + torch.ones(n) + y.sum()


def rows(x, y):
    found = x.nonzero()
    torch._check(found.size(0) == y.size(0))
    return found + y


def rows_by_broadcast(x, y):
    return x.nonzero()[:, 0] + y


T = torch.tensor
# function -> arguments for which its assertions hold, others of the same sizes for which they do not
CASES = {
    number: ([T([1, 3]), torch.randn(3)], [T([1, 4]), torch.randn(3)]),
    size: ([T([1, 3]), torch.randn(4)], [T([2, 3]), torch.randn(4)]),
    two_numbers: ([T([3, 3]), torch.randn(3)], [T([3, 2]), torch.randn(3)]),
    rows: ([T([1, 3]), torch.randn(2, 1)], [T([0, 3]), torch.randn(2, 1)]),
    rows_by_broadcast: ([T([1, 3, 0, 2]), torch.randn(3)], [T([1, 0, 0, 2]), torch.randn(3)]),
}


# Where the size is a symbol, AOTAutograd reads it instead of the number, and nothing is left to compare.
@pytest.mark.parametrize("function, dynamic", [(f, d) for f in CASES for d in (False, True) if (f, d) != (size, True)])
def test_holds_or_raises(function, dynamic):
    good, bad = CASES[function]
    check(function, good, dynamic=dynamic)
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(settings):
        compiled(*good)
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            compiled(*bad)


def test_a_number_that_is_asserted_cuts_no_graph():
    assert not cut_at(check(number, CASES[number][0]))


@torch.library.custom_op("bascule_tests::shorter", mutates_args=())
def shorter(x: torch.Tensor) -> torch.Tensor:
    return x[:-1].clone()


@shorter.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_operator_whose_fake_promises_other_sizes():
    compiled = torch.compile(lambda x: shorter(x) * 2, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(RuntimeError, match=r"sizes \[4\] where \[5\] were asserted"):
        compiled(torch.randn(5))


def test_an_operator_that_returns_no_elements_where_some_were_promised():
    compiled = torch.compile(lambda x: shorter(x) * 2, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(RuntimeError, match=r"sizes \[0\] where \[1\] were asserted"):
        compiled(torch.randn(1))
