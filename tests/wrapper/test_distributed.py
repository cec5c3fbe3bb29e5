"""Compiled autograd, and data parallel training of two processes with gloo: losses and gradients are eager's."""

from contextlib import nullcontext

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch.testing import assert_close

from tests.wrapper.data_parallel import WAYS, in_two_processes
from tests.wrapper.harness import OPTIONS, compiled


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))


def backward_compiler(gm):
    return torch.compile(gm, backend="bascule", options=OPTIONS, fullgraph=True)


def trained(compile_, prepare=lambda module, seen: None, scope=None):
    """Losses, gradients and what hooks saw in two steps. `scope`: in which the backward runs."""
    torch._dynamo.reset()
    module, seen = model(), []
    prepare(module, seen)
    function, losses = compile_(module), []
    for seed in range(2):
        torch.manual_seed(seed)
        loss = function(torch.randn(4, 6)).square().sum()
        if scope is None:
            loss.backward()
        else:
            with scope():
                loss.backward()
        losses.append(loss.detach())
    return losses, [p.grad for p in module.parameters()], seen


def enabled():
    return compiled_autograd._enable(backward_compiler)


def tensor_pre_hooks(module, seen):
    module[0].weight.register_hook(lambda grad: grad * 2)


def post_accumulate_hooks(module, seen):
    def halve(p):
        p.grad.mul_(0.5)

    for p in module.parameters():
        p.register_post_accumulate_grad_hook(halve)


def module_backward_hooks(module, seen):
    module[1].register_full_backward_hook(lambda m, given, out: (given[0] * 3,))


def module_pre_hooks(module, seen):
    module[1].register_full_backward_pre_hook(lambda m, out: (out[0] * 0.5,))


HOOKS = {
    "none": lambda module, seen: None,
    "tensor pre-hooks": tensor_pre_hooks,
    "post-accumulate-grad hooks": post_accumulate_hooks,
    "hooks after a module's backward": module_backward_hooks,
    "hooks before a module's backward": module_pre_hooks,
}


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("forward", ["eager", "bascule"])
def test_compiled_autograd(hooks, forward):
    compile_ = (lambda module: module) if forward == "eager" else (lambda module: compiled(module, fullgraph=False))
    wanted = trained(lambda module: module, HOOKS[hooks])
    assert_close(trained(compile_, HOOKS[hooks], enabled), wanted)


def test_compiled_autograd_by_configuration():
    """`torch._dynamo.config.compiled_autograd`: the backward inside the compiled function is captured with it."""

    def train(module, x):
        loss = module(x).square().sum()
        loss.backward()
        return loss.detach()

    results = []
    for compile_ in (lambda f: f, lambda f: compiled(f, fullgraph=False)):
        torch._dynamo.reset()
        module = model()
        with torch._dynamo.config.patch(compiled_autograd=True):
            torch.manual_seed(1)
            losses = [compile_(train)(module, torch.randn(4, 6)) for _ in range(2)]
        results.append((losses, [p.grad for p in module.parameters()]))
    assert_close(*results)


def test_compiled_autograd_nested_and_disabled():
    def scope():
        from contextlib import ExitStack

        stack = ExitStack()
        stack.enter_context(enabled())
        stack.enter_context(compiled_autograd._disable())
        return stack

    wanted = trained(lambda module: module)
    assert_close(trained(lambda module: compiled(module), scope=scope), wanted)


def test_compiled_autograd_with_sizes_that_change():
    """Sizes are inputs of the captured backward: other sizes need no other compile than the forward does."""
    results = []
    for compile_, scope in ((lambda f: f, None), (lambda f: compiled(f, dynamic=True), enabled)):
        torch._dynamo.reset()
        module = model()
        function = compile_(module)
        for rows in (3, 5, 9):
            torch.manual_seed(rows)
            loss = function(torch.randn(rows, 6)).square().sum()
            if scope is None:
                loss.backward()
            else:
                with scope():
                    loss.backward()
        results.append([p.grad for p in module.parameters()])
    assert_close(*results)


def test_compiled_autograd_takes_cpu_scalars():
    def f(x, scale):
        return x * scale

    gradients = []
    for scope in (None, enabled):
        torch._dynamo.reset()
        x, scale = torch.arange(4.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        out = (f if scope is None else compiled(f))(x, scale).sum()
        if scope is None:
            out.backward()
        else:
            with scope():
                out.backward()
        gradients.append((x.grad, scale.grad))
    assert_close(*gradients)


@pytest.mark.parametrize("forward", ["eager", "bascule"])
def test_compiled_autograd_takes_hooks_on_saved_tensors(forward):
    def step(compile_, scope):
        torch._dynamo.reset()
        torch.manual_seed(0)
        function, found = compile_(lambda x, y: (x * y).sin()), []
        for _ in range(3):
            x, y = (torch.randn(4, 5, requires_grad=True) for _ in range(2))
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.t().contiguous(), torch.Tensor.t):
                out = function(x, y)
            with scope():
                out.sum().backward()
            found.append((x.grad, y.grad))
        return found

    compile_ = (lambda function: function) if forward == "eager" else compiled
    assert_close(step(compile_, enabled), step(lambda function: function, nullcontext))


def test_compiled_autograd_takes_hooks_of_nodes():
    def step(compile_, scope):
        torch._dynamo.reset()
        torch.manual_seed(0)
        function, found = compile_(torch.sin), []
        for _ in range(3):
            x = torch.randn(4, requires_grad=True)
            y = x * 2
            y.grad_fn.register_prehook(lambda grads: tuple(grad + 1 for grad in grads))
            y.grad_fn.register_hook(lambda given, grads: tuple(None if grad is None else grad * 3 for grad in given))
            out = function(y).sum()
            with scope():
                out.backward()
            found.append(x.grad)
        return found

    assert_close(step(compiled, enabled), step(lambda function: function, nullcontext))


@pytest.mark.parametrize("how", WAYS)
def test_two_processes_train_as_eager(how):
    for told in in_two_processes(how, "cpu"):
        assert_close(told["compiled"], told["eager"], rtol=1e-4, atol=1e-5)
        assert told["graphs"].get("compiled", 0) >= 2 and "fallback" not in told["graphs"]
