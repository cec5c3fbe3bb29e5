"""Tensors saved for the backward may share memory among themselves: nothing is copied to tell them apart. The user's outputs may not."""

import torch
from torch.testing import assert_close

import bascule


def attention(x, w):
    q, k, v = (part.view(2, 8, 4, 16).transpose(1, 2) for part in (x @ w).split(64, -1))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 8, 64)


def test_saved_views_of_one_product_are_not_copied():
    torch._dynamo.reset()
    x, w = torch.randn(2, 8, 64, requires_grad=True), torch.randn(64, 192, requires_grad=True)
    explained = bascule.explain(attention, x, w, options={"on_error": "raise"})
    forward = explained.graphs[0].wrapper
    assert ".copy_(" not in forward
    compiled = torch.compile(attention, backend="bascule", options={"on_error": "raise"})
    got = torch.autograd.grad(compiled(x, w).square().sum(), (x, w))
    assert_close(got, torch.autograd.grad(attention(x, w).square().sum(), (x, w)), rtol=1e-4, atol=1e-4)


def test_what_the_user_sees_is_told_apart_from_what_is_saved():
    """Writing an output must not change what the backward reads, which in the user's program is another tensor."""

    def f(x):
        y = torch.exp(x)
        return y.clone(), y * 2

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="bascule", options={"on_error": "raise"})
    gradients = []
    for function in (compiled, f):
        x = torch.arange(4.0, requires_grad=True)
        copy, double = function(x)
        copy.detach().zero_()
        gradients.append(torch.autograd.grad(double.sum(), x))
    assert_close(*gradients)
