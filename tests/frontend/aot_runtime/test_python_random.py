"""Numbers that Python draws inside of a compiled function are those that eager draws, whatever dtype Dynamo hands them over with."""

import random

import pytest
import torch


def same_draws(function, *args, **settings):
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, **settings)
    for seed in range(3):  # the first call compiles
        random.seed(seed)
        expected = function(*args)
        random.seed(seed)
        torch.testing.assert_close(compiled(*args), expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_one_number(dtype, dynamic):
    x = torch.arange(1, 7).reshape(2, 3).to(dtype)
    same_draws(lambda x: x * random.uniform(10, 20), x, dynamic=dynamic)


def test_numbers_before_and_after_a_graph_break():
    def function(x):
        y = x + random.uniform(10, 20)
        torch._dynamo.graph_break()
        return y * random.random(), y + random.randint(2, 18)

    same_draws(function, torch.randn(4))


def test_a_number_that_a_training_step_uses():
    x = torch.randn(4, 3)
    w = torch.randn(3, 5, requires_grad=True)

    def function(w):
        return torch.autograd.grad(((x @ w) * random.uniform(1, 2)).relu().sum(), w)

    def step():
        return torch.compile(lambda w: ((x @ w) * random.uniform(1, 2)).relu().sum(), backend="bascule")

    compiled = step()
    for seed in range(2):
        random.seed(seed)
        (expected,) = function(w)
        random.seed(seed)
        torch.testing.assert_close(torch.autograd.grad(compiled(w), w)[0], expected)


def test_numpys_scalars_keep_their_dtype():
    numpy = pytest.importorskip("numpy")
    x = torch.randn(3, dtype=torch.float64)
    compiled = torch.compile(lambda x, n: x + n, backend="bascule")
    for value in (1.1, 2.7):
        torch.testing.assert_close(compiled(x, numpy.float64(value)), x + value, rtol=0, atol=0)
    for value in (1.1, 2.7):
        torch.testing.assert_close(compiled(x, numpy.float32(value)), x + numpy.float32(value), rtol=0, atol=0)
