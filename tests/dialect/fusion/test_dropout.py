"""Dropouts of one graph: one kernel for all of them, and still a mask of its own for each, the same forward and backward."""

import pytest
import torch

import bascule

LAYERS, P, SHAPE = 6, 0.25, (64, 96)


@pytest.fixture
def compiled():
    torch._dynamo.reset()
    return torch.compile(lambda *xs: [torch.nn.functional.dropout(x, P) for x in xs], backend="bascule")


def inputs():
    return [torch.ones(SHAPE, requires_grad=True) for _ in range(LAYERS)]


def test_dropouts_that_differ_in_their_seed_are_one_kernel():
    torch._dynamo.reset()

    def stack(x, weights):
        for w in weights:
            x = torch.nn.functional.dropout(x @ w, P)
        return x

    explanation = bascule.explain(stack, torch.randn(SHAPE), [torch.randn(96, 96) for _ in range(LAYERS)])
    (graph,) = explanation.graphs
    (kernel,) = graph.kernels
    assert kernel.calls == LAYERS


def test_each_dropout_has_a_mask_of_its_own(compiled):
    torch.manual_seed(3)
    kept = [out.detach() != 0 for out in compiled(*inputs())]
    for mask in kept:
        assert abs(mask.float().mean().item() - (1 - P)) < 0.03
    for i, a in enumerate(kept):
        for b in kept[:i]:  # independent masks agree where both keep or both drop
            assert abs((a == b).float().mean().item() - (P**2 + (1 - P) ** 2)) < 0.04


def test_the_backward_uses_the_mask_of_the_forward(compiled):
    xs = inputs()
    outs = compiled(*xs)
    grads = [torch.randn(SHAPE) for _ in xs]
    torch.autograd.backward(outs, grads)
    for x, out, grad in zip(xs, outs, grads, strict=True):
        torch.testing.assert_close(x.grad, grad * out.detach())  # of ones: the output is the mask over 1 - P


def test_a_seed_repeats_and_another_does_not(compiled):
    runs = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        runs.append([out.detach() for out in compiled(*inputs())])
    for a, b, c in zip(*runs, strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)
