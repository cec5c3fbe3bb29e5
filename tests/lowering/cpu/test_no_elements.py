"""Tensors without elements: nothing is read, and what is reduced over nothing is stored all the same."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

EMPTY = [(0, 3), (3, 0), (2, 0, 3), (0,)]

# Where a size is 0 every index along it is a constant: what is read there does not depend on the loop, but does not exist either.
FUNCTIONS = {
    "a reshape": lambda x: (x > 0).long().reshape(-1),
    "a sum of a reshape": lambda x: x.reshape(-1).sum(),
    "sums of all dimensions": lambda x: [x.sum(dim) for dim in range(x.dim())],
    "products and conditions": lambda x: [(x.prod(dim), (x > 0).all(dim), (x > 0).any(dim)) for dim in range(x.dim())],
    "a loop beside one that is not empty": lambda x: (x.reshape(-1) * 2, x.sum() + torch.arange(5)),
    "a running sum": lambda x: x.cumsum(0).flatten(),
    "a row's own number": lambda x: x.reshape(-1, 1).expand(-1, 4).reshape(-1) + x.sum(),
    "variance": lambda x: x.flatten().var(correction=0),
}


def leaves(value: object) -> list[Tensor]:
    return tree_flatten(value)[0]


def agree(compiled, function, *inputs: Tensor) -> None:
    for got, want in zip(leaves(compiled(*inputs)), leaves(function(*inputs)), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_size_of_zero(name, target):
    function, options = FUNCTIONS[name], {"target": target, "on_error": "raise"}
    for shape in EMPTY:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="bascule", options=options)
        agree(compiled, function, torch.empty(shape))


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_size_that_data_makes_zero(name, target):
    def function(x: Tensor, keep: Tensor):
        return FUNCTIONS[name](x[torch.nonzero(keep).flatten()])

    torch._dynamo.reset()
    x = torch.randn(6, 3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="bascule", options={"target": target, "on_error": "raise"})
        for keep in (x[:, 0] < 9, x[:, 0] > 9, x[:, 0] > 0):
            agree(compiled, function, x, keep)


def test_the_largest_of_nothing_is_refused_as_eager_refuses_it():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.amax(0), backend="bascule")
    with pytest.raises(Exception, match="amax"):
        compiled(torch.empty(0, 3))


def test_of_an_expanded_tensor_nothing_is_stored():
    """Its strides are 0 in the result too, as in eager."""
    x = torch.randn(4).expand(4, 4)[None]
    call = torch.compile(lambda x: x[1:] * 2, backend="bascule", options={"on_error": "raise"})
    assert call(x).shape == (0, 4, 4)
    call = torch.compile(lambda x: x[1:].clone(), backend="bascule", options={"on_error": "raise"})
    assert call(x).stride() == x[1:].clone().stride()
