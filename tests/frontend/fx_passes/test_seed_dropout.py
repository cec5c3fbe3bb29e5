"""Dropouts whose mask is not saved: the backward draws it again."""

import pytest
import torch
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx_passes import seed_dropout
from bascule.frontend.fx_passes.seed_dropout import seed_dropouts
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

SIZE = 40, 50


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    """Passes meant for GPUs run here too."""
    monkeypatch.setattr(seed_dropouts, "__defaults__", (("cpu",),))


def saved(function, *leaves, dynamic=False):
    """The tensors that the forward of a training step saves, its inputs left out; and the graph."""
    found, graphs = [], []

    def compiler(gm, example_inputs, is_backward, is_inference):
        graphs.append(gm)
        if is_backward:
            found.extend(
                x for n, x in zip(gm.graph.nodes, example_inputs) if not n.name.startswith(("primals", "tang"))
            )
        call = lambda args: gm(*args)  # noqa: E731
        call._boxed_call = True
        return call

    def backend(gm, inputs):
        return compile_with_autograd(gm, inputs, compiler, decomposition_table())

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*leaves).sum().backward()
    return found, graphs


def leaf():
    return torch.rand(SIZE).add(0.5).requires_grad_()


def twice(x):
    return F.dropout(F.dropout(x.sin(), 0.25).exp(), 0.5)


def test_no_mask_is_saved():
    found, _ = saved(lambda x, y: F.layer_norm(F.dropout(x, 0.1) + y, SIZE[1:]), leaf(), leaf())
    assert found and not any(x.dtype == torch.bool for x in found)
    assert sorted(x.numel() for x in found if x.dtype == torch.int64) == [1]


def test_one_call_makes_all_seeds():
    found, (forward, backward) = saved(twice, leaf())
    calls = [str(n.target) for gm in (forward, backward) for n in gm.graph.nodes]
    assert calls.count("prims.inductor_seeds.default") == 1
    assert calls.count("prims.inductor_random.default") == 4
    assert not any(x.dtype == torch.bool for x in found)


@pytest.mark.parametrize(
    "function", [lambda x: F.dropout(x, 0.0), lambda x: F.dropout(x, 1.0), lambda x: F.dropout(x, 0.5, training=False)]
)
def test_what_draws_nothing_has_no_seed(function):
    _, graphs = saved(lambda x: function(x) * x, leaf())
    assert not any("seed" in str(n.target) for gm in graphs for n in gm.graph.nodes)


@pytest.mark.parametrize("function", [twice, lambda x: F.dropout(torch.cat([x, x.flip(0)]), 0.5) * 2])
def test_no_mask_of_sizes_that_vary_is_saved(function):
    found, (_, backward) = saved(lambda x: function(x).square(), leaf(), dynamic=True)
    tensors = [x for x in found if isinstance(x, torch.Tensor)]
    assert tensors and not any(x.dtype == torch.bool for x in tensors)
    assert "prims.inductor_random.default" in [str(n.target) for n in backward.graph.nodes]


def test_where_masks_are_kept(monkeypatch):
    monkeypatch.setattr(seed_dropouts, "__defaults__", (("cuda",),))
    found, _ = saved(lambda x: F.dropout(x, 0.5) * 2, leaf())
    assert any(x.dtype == torch.bool for x in found)


def regions(x, w):
    """Dropouts in a region that is checkpointed, and outside of it."""
    inside = checkpoint(
        lambda x, w: F.dropout((x * w).sin(), 0.5).cos() * F.dropout(w, 0.25), x, w, use_reentrant=False
    )
    return F.dropout(inside, 0.1)


STEPS = {
    "one": lambda x, w: F.dropout(x, 0.5) * w,
    "two": lambda x, w: twice(x) * w,
    "normalized": lambda x, w: F.layer_norm(F.dropout(x, 0.3) + w, SIZE[1:]).square(),
    "checkpointed": regions,
    "attention": lambda x, w: F.dropout((x @ w.t()).softmax(-1), 0.4) @ w,
}


@pytest.mark.parametrize("target, dynamic", [("cpu", False), ("interpret", False), ("interpret", True)])
@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_those_of_what_was_drawn(name, target, dynamic):
    """With the numbers of the forward fixed by its seeds, the step is a function: its gradient is compared with quotients of differences."""
    torch._dynamo.reset()
    options = {"target": target, "on_error": "raise", "cache": False}
    compiled = torch.compile(STEPS[name], backend="bascule", dynamic=dynamic, options=options)
    x, w = (torch.rand(SIZE, dtype=torch.float64).add(0.5).requires_grad_() for _ in range(2))

    def value(x, w):
        torch.manual_seed(3)
        return compiled(x, w)

    y = value(x, w)
    ramp = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).sin().view(y.shape)
    gradients = torch.autograd.grad((y * ramp).sum(), (x, w))
    for number, leaf in enumerate((x, w)):
        direction = torch.randn_like(leaf)
        step = 1e-6
        ends = [
            [
                leaf.detach() + sign * step * direction if k == number else other.detach()
                for k, other in enumerate((x, w))
            ]
            for sign in (1, -1)
        ]
        above, below = ((value(*(t.requires_grad_() for t in end)).detach() * ramp).sum() for end in ends)
        got = (gradients[number] * direction).sum()
        torch.testing.assert_close(got, (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


def test_runs_differ():
    x = torch.ones(1000, requires_grad=True)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5), backend="bascule", options={"on_error": "raise"})
    masks = [compiled(x).detach() != 0 for _ in range(2)]
    assert not torch.equal(*masks)
    assert all(abs(mask.float().mean() - 0.5) < 0.1 for mask in masks)


def test_many_elements_pass_as_often_as_asked():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: F.dropout(x, 0.25), backend="bascule", options={"on_error": "raise"})
    y = compiled(torch.ones(400, 500, requires_grad=True))
    assert abs((y == 0).float().mean() - 0.25) < 0.01
    assert (y[y != 0] == 1 / 0.75).all()
    assert seed_dropout.seed_dropouts.__defaults__ == (("cpu",),)
