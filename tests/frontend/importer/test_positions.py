"""Positions computed from sizes: negative ones count from the end of a dimension, whatever the form of the expression."""

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.against_eager import check, leaf


def written(x, n):
    y = x.clone()
    y[n - 9 :] = 3
    y[n - 9] += 2
    y[n - 9 : -1].mul_(2)
    return y


FUNCTIONS = {
    "slice from": lambda x, n: x[n - 9 :],
    "slice from, in steps": lambda x, n: x[n - 9 :: 2],
    "slice from a number without affine form": lambda x, n: x[-(min(8, n) - 4) :],
    "slice from, to": lambda x, n: x[n - 9 : n - 7],
    "slice from a product": lambda x, n: x[(n - 9) * 2 :],
    "slice from a difference of sizes": lambda x, n: x[n - x.shape[0] :],
    "slice from before the beginning": lambda x, n: x[n - 30 :],
    "slice from before the beginning, to": lambda x, n: x[n - 30 : 5],
    "slice to": lambda x, n: x[1 : n - 9],
    "no element": lambda x, n: x[n - 9 : n - 30],
    "what is zero": lambda x, n: x[-(n // 50) :: 2],
    "select": lambda x, n: x[n - 9],
    "narrow": lambda x, n: torch.narrow(x, 0, n - 9, 2),
    "split": lambda x, n: torch.tensor_split(x, (n - 9,)),
    "writes": written,
    "slice scatter": lambda x, n: torch.slice_scatter(x, x.new_ones(9 - n), 0, n - 9),
    "select scatter": lambda x, n: torch.select_scatter(x, x.sum(), 0, n - 9),
    "pad": lambda x, n: F.pad(x, (n - 9, 9 - n)),
    "roll": lambda x, n: torch.roll(x, n - 9),
    "diagonal": lambda x, n: torch.diagonal(x[:, None] * x, n - 9),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_positions_of_either_sign(name):
    torch.manual_seed(0)

    def function(x, other):
        made = FUNCTIONS[name](x, other.shape[0])
        return [part.sin() for part in (made if isinstance(made, tuple) else (made,))]

    check(function, [leaf(12), torch.randn(6)], [leaf(13), torch.randn(7)], dynamic=True)


@pytest.mark.parametrize(
    "name", ["slice from", "slice from, in steps", "slice from a number without affine form", "select", "narrow"]
)
def test_the_same_functions_of_positions_that_are_not_negative(name):
    def function(x, other):
        return FUNCTIONS[name](x, other.shape[0]).sin()

    check(function, [leaf(12), torch.randn(11)], [leaf(13), torch.randn(13)], dynamic=True)


@pytest.mark.parametrize("start", [lambda n: -n, lambda n: n - 5], ids=["the last ones", "a difference"])
def test_positions_from_data(start):
    def function(x, count):
        n = count.item()
        torch._check(n >= 1)
        torch._check(n < 5)
        return x[start(n) :].sin()

    check(function, [leaf(12), torch.tensor(3)], [leaf(12), torch.tensor(1)])
