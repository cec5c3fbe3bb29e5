"""Masks of activations after normalizations, computed again from what was normalized."""

import pytest
import torch
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.partitioner.recompute_activation_masks import GRADIENTS, recompute_masks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

aten = torch.ops.aten


def normalized(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky": lambda x: F.leaky_relu(x, 0.1),
    "hardswish": F.hardswish,
    "silu": F.silu,
    "gelu": F.gelu,
}


def inputs(dtype=torch.float64):
    x = torch.randn(3, 32, 7, 5, dtype=dtype).to(memory_format=torch.channels_last)
    return [t.requires_grad_() for t in (x, torch.randn(32, dtype=dtype), torch.randn(32, dtype=dtype))]


def joint(activation, leaves):
    def step(x, w, b):
        y = activation(normalized(x, w, b))
        tangent = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
        return y, *torch.autograd.grad(y, (x, w, b), tangent)

    return make_fx(step, decomposition_table(), tracing_mode="fake")(*leaves), step


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_computes_the_same(name):
    leaves = inputs()
    gm, step = joint(ACTIVATIONS[name], leaves)
    assert recompute_masks(gm.graph, ("cpu",)) == 1
    gm.graph.lint()
    gm.recompile()
    for got, want in zip(gm(*(x.detach() for x in leaves)), step(*leaves), strict=True):
        torch.testing.assert_close(got, want)


def saved(function, leaves, monkeypatch):
    """The sizes of what the forward of a training step saves, its inputs left out."""
    sizes = []

    def compiler(gm, example_inputs, is_backward, is_inference):
        if is_backward:
            sizes.extend(
                x.numel() for n, x in zip(gm.graph.nodes, example_inputs) if not n.name.startswith(("primals", "tang"))
            )
        call = lambda args: gm(*args)  # noqa: E731
        call._boxed_call = True
        return call

    monkeypatch.setattr(recompute_masks, "__defaults__", (("cpu",),))
    compiled = torch.compile(
        function, backend=lambda gm, ex: compile_with_autograd(gm, ex, compiler, decomposition_table())
    )
    compiled(*leaves).sum().backward()
    return sizes


def test_the_activation_is_not_saved(monkeypatch):
    leaves = inputs(torch.float32)
    kept = saved(lambda x, w, b: F.relu(normalized(x, w, b)), leaves, monkeypatch)
    assert kept and max(kept) < leaves[0].numel()


def test_what_has_elements_of_other_places_is_read():
    gm, _ = joint(lambda y: F.relu(y + y.flip(0)), inputs())
    before = str(gm.graph)
    assert recompute_masks(gm.graph, ("cpu",)) == 0 and str(gm.graph) == before


def test_other_devices_are_left_alone():
    gm, _ = joint(F.relu, inputs())
    assert recompute_masks(gm.graph, ("cuda",)) == 0


def test_without_a_normalization_nothing_changes():
    gm = make_fx(lambda x: torch.autograd.grad(F.relu(x * 2).sum(), x), decomposition_table())(
        torch.randn(4, 4, requires_grad=True)
    )
    assert any(node.target in GRADIENTS for node in gm.graph.nodes)
    assert recompute_masks(gm.graph, ("cpu",)) == 0
