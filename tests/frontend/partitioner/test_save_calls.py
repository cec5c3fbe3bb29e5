"""Operators that others see are called as often by a step of training as in eager, however little memory there is for what is saved."""

import pytest
import torch
from torch import Tensor
from torch._functorch import config
from torch.utils.checkpoint import checkpoint

calls = []


@torch.library.custom_op("saved_calls::one", mutates_args=())
def one(x: Tensor) -> Tensor:
    calls.append("one")
    return x.sin()


@torch.library.custom_op("saved_calls::two", mutates_args=())
def two(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    calls.append("two")
    return x.sin(), [x.sin() * 2, x.sin() * 3]


one.register_fake(torch.empty_like)
two.register_fake(lambda x: (torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x)]))


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradient(ctx, first, others=(0, 0)):
    (x,) = ctx.saved_tensors
    second, third = others
    return (first + second * 2 + third * 3) * x.cos()


for operator in (one, two):
    operator.register_autograd(_gradient, setup_context=_setup)


def alone(x, w):
    y = one((x @ w).relu() * 2)
    return (one((y.exp() * y).sin()) * y).sum()


def several(x, w):
    y, (z, _) = two((x @ w).relu() * 2)
    return ((y * z).sin() * y * z).sum()


def checkpointed(x, w):
    return checkpoint(lambda x: (one(x @ w).exp() * 2).sin(), x, use_reentrant=False).sum()


def step(function, backend, budget):
    """The gradients, and the calls. No `backend`: without Dynamo, whose own "eager" computes nothing again (torch 2.11)."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    given = [torch.randn(8, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    calls.clear()
    with config.patch(activation_memory_budget=budget):
        options = {"on_error": "raise"} if backend == "bascule" else None
        call = torch.compile(function, backend=backend, options=options) if backend is not None else function
        call(*given).backward()
    return [x.grad for x in given], [*calls]


@pytest.mark.parametrize("function", [alone, several, checkpointed])
@pytest.mark.parametrize("budget", [1.0, 0.5, 0.1])
def test_as_often_as_in_eager(function, budget):
    wanted, made = step(function, None, 1.0)
    got, now = step(function, "bascule", budget)
    assert now == made
    torch.testing.assert_close(got, wanted)
