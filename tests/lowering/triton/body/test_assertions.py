"""Indices out of range in kernels for a GPU, run by the interpreter."""

import re

import pytest
import torch
from bascule.lowering.triton.interpreter import InterpreterError
from torch.nn import functional as F

from bascule.options import Options
from bascule.pipelines import pipeline_for

R = torch.randn
I = torch.tensor  # noqa: E741
BEYOND = 1 << 33  # in 32 bits it is 0
CASES = {
    "embedding": (lambda i, w: F.embedding(i, w) * 2, [I([3, 1, 2]), R(5, 4)], 5, False),
    "index": (lambda i, x: x[:, i] + 1, [I([3, 1, 2]), R(2, 5)], 5, True),
    "several": (lambda i, x: x[i, i.flip(0)] + 1, [I([3, 1, 2]), R(5, 5)], 5, True),
    "gather": (lambda i, x: x.gather(1, i).exp(), [I([[3, 1], [2, 0]]), R(2, 5)], 5, False),
    "index_select": (lambda i, x: x.index_select(1, i).exp(), [I([3, 1, 2]), R(2, 5)], 5, False),
    "take": (lambda i, x: x.take(i).exp(), [I([3, 1, 2]), R(2, 5)], 10, True),
    "scatter": (lambda i, x: x.scatter(1, i, x.exp()), [I([[3, 1], [2, 0]]), R(2, 5)], 5, False),
    "index_put": (lambda i, x: x.index_put((i,), R(3, 4).fill_(2.0)), [I([3, 1, 2]), R(5, 4)], 5, True),
    "index_add": (lambda i, x: x.index_add(0, i, x[:3].exp()), [I([3, 1, 2]), R(5, 4)], 5, False),
    "of i32": (lambda i, x: x[i] + 1, [I([3, 1, 2], dtype=torch.int32), R(5)], 5, True),
    "in a sum": (lambda i, x: x[i].sum(-1), [I([[3, 1, 2], [0, 0, 4]]), R(5)], 5, True),
    "beside others": (lambda i, x: torch.cat([x * 2, x[i]]), [I([3, 1, 2]), R(5)], 5, True),
}


def compiled(function, **options):
    options = {"target": "interpret", "on_error": "raise", **options}
    return torch.compile(function, backend="bascule", options=options, dynamic=False)


def with_last(index: torch.Tensor, value: float) -> torch.Tensor:
    changed = index.clone()
    changed.view(-1)[-1] = value
    return changed


@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range_ends_the_program(name):
    function, (index, x), size, wraps = CASES[name]
    call = compiled(function)
    inside = [index, *(with_last(index, value) for value in (size - 1, -size if wraps else 0))]
    for good in inside:
        torch.testing.assert_close(call(good, x), function(good, x))
    outside = [size, -size - 1 if wraps else -1] + ([BEYOND] if index.dtype == torch.int64 else [])
    for bad in outside:
        with pytest.raises(InterpreterError, match="an index is out of bounds for a dimension of") as caught:
            call(with_last(index, bad), x)
        assert re.search(r"test_assertions\.py:\d+", str(caught.value))


def test_the_error_names_the_operator_and_the_size():
    with pytest.raises(InterpreterError, match=r"aten\.embedding\.default: .* a dimension of 5 elements"):
        compiled(CASES["embedding"][0])(I([5]), R(5, 4))


def test_without_the_option_an_index_is_clamped():
    x = R(5)
    for bad, last in ((7, 4), (-9, 0)):
        got = compiled(lambda i, x: x[i] + 1, index_asserts=False)(I([1, bad]), x)
        torch.testing.assert_close(got, x[[1, last]] + 1)


def test_what_conditions_leave_out_is_not_looked_at():
    """An index under a mask, of `_unsafe_masked_index`, may be any."""
    mask, x = I([True, False, True]), R(5)
    call = compiled(lambda i, x, mask: torch.ops.aten._unsafe_masked_index(x, mask, [i], 0.5) * 2)
    torch.testing.assert_close(call(I([3, 99, 1]), x, mask), torch.stack([x[3], I(0.5), x[1]]) * 2)


def test_more_places_under_a_mask_than_elements():
    mask, x = I([True, False, True, True]), R(4)
    call = compiled(lambda x, mask, source: x.masked_scatter(mask, source) * 2)
    torch.testing.assert_close(call(x, mask, R(3).fill_(2.0)), x.masked_scatter(mask, R(3).fill_(2.0)) * 2)
    with pytest.raises(
        InterpreterError, match=r"masked_scatter\.default: an index is out of bounds for a dimension of 2"
    ):
        call(x, mask, R(2))


@pytest.mark.parametrize(
    "function, good, bad",
    [
        (lambda x: F.binary_cross_entropy(x, x.round()), 0.75, (1.5, -0.25, float("nan"))),
        (lambda x: F.binary_cross_entropy(x.clamp(0, 1), x, reduction="none"), 0.75, (1.5,)),
        (lambda x: torch.bernoulli(x), 1.0, (1.5, -0.25, float("nan"))),
        (lambda x: torch.normal(x * 2, x), 3.0, (-0.25,)),
    ],
)
def test_an_element_out_of_range_ends_the_program(function, good, bad):
    call, x = compiled(function), torch.full((37,), 0.5)
    call(with_last(x, good))
    for wrong in bad:
        with pytest.raises(
            InterpreterError, match=r"aten\.\w+\.\w+: an element is not (between 0\S* and 1|at least 0)"
        ):
            call(with_last(x, wrong))


def test_a_place_beyond_an_output_volume_ends_the_program():
    call, x, index = compiled(lambda x, i: F.max_unpool2d(x, i, 2)), torch.ones(2, 1, 1, 2), I([[[[0, 3]]], [[[1, 2]]]])
    torch.testing.assert_close(call(x, index), F.max_unpool2d(x, index, 2))
    for wrong in (8, -1):
        with pytest.raises(
            InterpreterError, match=r"max_unpool2d\.default: an index is out of bounds for a dimension of 8"
        ):
            call(x, with_last(index, wrong))


def test_a_gradient_and_sizes_that_are_symbols():
    x = R(6, 3).requires_grad_()
    call = torch.compile(lambda i, x: x[i].exp(), backend="bascule", options={"target": "interpret"}, dynamic=True)
    for count in (4, 7):
        i = torch.arange(count) % 6 - 2
        torch.testing.assert_close(torch.autograd.grad(call(i, x).sum(), x), torch.autograd.grad(x[i].exp().sum(), x))
    with pytest.raises(InterpreterError, match="an index is out of bounds for its dimension"):
        call(I([1, 2, 6, 3, 3]), x)


def test_gpus_have_them():
    def asks(options: Options, **machine: str) -> bool:
        return "index-asserts=true" in str(pipeline_for(options, machine))

    assert asks(Options(), target="cuda") and not asks(Options(), target="cpu")
    assert not asks(Options(index_asserts=False), target="cuda")
