"""Compiled graphs that are called past AOTAutograd's wrappers: which are, and that nobody sees a difference."""

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from bascule.frontend.aot_runtime import direct_inference, direct_training
from torch._dynamo import convert_frame
from torch.autograd import forward_ad

import bascule
from bascule import frontend, runtime
from bascule.compat.versions import internals

needs_version = pytest.mark.skipif(not internals().direct_calls, reason="another PyTorch")


def compiled(function, options=None, **named):
    torch._dynamo.reset()
    options = {"on_error": "raise", **(options or {})}
    return torch.compile(function, backend="bascule", fullgraph=True, options=options, **named)


@pytest.fixture
def found(monkeypatch):
    """Whether each graph that was called the first time is called directly from then on."""
    told = []
    for module in (direct_inference, direct_training):
        name = module.__name__.rpartition("_")[2]
        original = getattr(module, name)

        def note(*args, original=original):
            direct = original(*args)
            told.append(direct is not None)
            return direct

        monkeypatch.setattr(module, name, note)
    return told


def leaves(*sizes):
    return [torch.randn(*size, requires_grad=True) for size in sizes]


@needs_version
@pytest.mark.parametrize(
    "function,direct",
    [
        (lambda x: x * 2, True),
        (lambda x: (x * 2, x.sum(), None, 3), True),
        (lambda x: x.view(-1), False),  # a view of an input
        (lambda x: (x + 1).view(2, 2), True),
    ],
)
def test_inference(found, function, direct):
    call = compiled(function)
    for _ in range(3):
        x = torch.randn(4)
        want = function(x.clone())
        got = call(x)
        torch.testing.assert_close(got, want)
    assert found[0] is direct


@pytest.mark.parametrize("grad", [False, True])
def test_a_write_is_one_version_where_the_new_contents_are_copied_in(grad):
    def function(x, y):
        x.add_(1)
        return x.sum() + y.flip(0).sum()

    call = compiled(function)
    x, y = torch.randn(4, 4), torch.randn(4, requires_grad=grad)
    for n in range(1, 4):
        call(x, y)
        assert x._version == n


@needs_version
def test_written_inputs_have_a_new_version(found):
    call = compiled(lambda x, y: (x.mul_(2), None)[1])
    x, y = torch.randn(4), torch.randn(4)
    x0 = x.clone()
    for n in range(1, 4):
        call(x, y)
        assert x._version == n
        torch.testing.assert_close(x, x0 * 2**n)
    assert found[0]


def test_gradients_are_off_inside(found):
    """An inference graph called with gradients on runs ATen's operators without."""
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    call = compiled(lambda a, b: (a @ b) + 1)
    for _ in range(3):
        assert not call(a, b).requires_grad
        assert torch.is_grad_enabled()


@needs_version
def test_a_training_step(found):
    def function(x, w, b):
        return torch.nn.functional.layer_norm(x, (8,), w, b), (x * w).detach(), x.sum(1)

    call = compiled(function)
    for _ in range(4):
        inputs = leaves((4, 8), (8,), (8,))
        got, want = call(*inputs), function(*inputs)
        tangents = torch.randn(4, 8), torch.randn(4)
        assert [x.requires_grad for x in got] == [True, False, True]
        g, w = (torch.autograd.grad([out[0], out[2]], inputs, tangents) for out in (got, want))
        torch.testing.assert_close((got, g), (want, w))
    assert found == [True]
    assert call(*inputs)[0].grad_fn.name() == "CompiledFunctionBackward"


@needs_version
def test_a_training_step_that_writes_statistics(found):
    """Running statistics and the number of batches, of which each step raises the versions."""
    norms = [torch.nn.BatchNorm1d(5).double() for _ in range(2)]
    call, versions = compiled(lambda x: norms[0](x).sin()), []
    for _ in range(4):
        x = torch.randn(7, 5, dtype=torch.float64)
        results = []
        for run in (call, lambda x: norms[1](x).sin()):
            (leaf,) = [x.clone().requires_grad_()]
            out = run(leaf)
            results.append((out, *torch.autograd.grad(out.square().sum(), leaf)))
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*(dict(norm.named_buffers()) for norm in norms))
        versions.append([buffer._version for buffer in norms[0].buffers()])
    raised = [[after - before for before, after in zip(*pair)] for pair in pairwise([[0, 0, 0], *versions])]
    assert all(min(each) >= 1 for each in raised)
    assert found == [True]


@needs_version
def test_what_a_training_step_wrote_is_saved_as_it_was(found):
    def function(x, state):
        state.add_(1)
        return x * state

    call, state, early = compiled(function), torch.zeros(5), []
    for _ in range(4):
        (x,) = leaves((5,))
        early.append((x, call(x, state)))
    for n, (x, out) in enumerate(early, 1):
        out.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((5,), float(n)))
    assert found == [True]


def test_only_some_gradients_are_asked_for(found):
    call = compiled(lambda x, y: (x.sin(), y.cos()))
    for _ in range(3):
        x, y = leaves((5,), (5,))
        a, _ = call(x, y)
        a.sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos())
        assert y.grad is None or not y.grad.any()


def test_tangents_of_other_strides(found):
    call = compiled(lambda x, y: x.exp() * y)
    for _ in range(2):
        for tangent in (torch.randn(6, 4), torch.randn(4, 6).t(), torch.randn(1, 1).expand(6, 4)):
            inputs = leaves((6, 4), (6, 4))
            got = torch.autograd.grad(call(*inputs), inputs, tangent)
            torch.testing.assert_close(got, torch.autograd.grad(inputs[0].exp() * inputs[1], inputs, tangent))


def test_a_graph_that_is_kept(found):
    call = compiled(lambda x: x.sin())
    for _ in range(3):
        (x,) = leaves((5,))
        out = call(x).sum()
        for _ in range(2):
            torch.testing.assert_close(torch.autograd.grad(out, x, retain_graph=True)[0], x.detach().cos())


def test_a_second_derivative_is_refused(found):
    call = compiled(lambda x: x.sin())
    for _ in range(3):
        (x,) = leaves((5,))
        (grad,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        assert grad.requires_grad
        with pytest.raises(RuntimeError, match="double backward"):
            grad.sum().backward()


def test_what_is_saved_must_not_change(found):
    call = compiled(lambda x, y: x * y)
    for _ in range(3):
        (x,) = leaves((5,))
        y = torch.randn(5)
        out = call(x, y)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_a_backward_twice_is_refused(found):
    call = compiled(lambda x: x.exp())
    for _ in range(3):
        (x,) = leaves((5,))
        out = call(x).sum()
        out.backward()
        with pytest.raises(RuntimeError, match="second time"):
            out.backward()


def test_deterministic_algorithms_between_forward_and_backward(found):
    call = compiled(lambda x: x.exp())
    for _ in range(3):
        (x,) = leaves((5,))
        out = call(x).sum()
        torch.use_deterministic_algorithms(True)
        try:
            with pytest.raises(RuntimeError, match="use_deterministic_algorithms"):
                out.backward()
        finally:
            torch.use_deterministic_algorithms(False)


def test_hooks_on_saved_tensors(found):
    call, packed = compiled(lambda x, y: x * y), []
    for _ in range(3):
        inputs = leaves((5,), (5,))
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t * 2, lambda t: t / 2):
            out = call(*inputs)
        torch.testing.assert_close(torch.autograd.grad(out.sum(), inputs), (inputs[1].detach(), inputs[0].detach()))
    assert packed


def test_batches_of_gradients_are_refused(found):
    call = compiled(lambda x: x.sin())
    for _ in range(3):
        (x,) = leaves((5,))
        with pytest.raises(RuntimeError, match="one gradient at a time"):
            torch.autograd.grad(call(x), x, torch.eye(5), is_grads_batched=True)


@pytest.mark.parametrize("grad", [False, True])
def test_tangents_of_forward_mode_are_refused(found, grad):
    call, x, y = compiled(lambda x, y: x.sin() * y), torch.randn(5, requires_grad=grad), torch.randn(5)
    for _ in range(3):
        with forward_ad.dual_level():
            torch.testing.assert_close(call(x, y), x.sin() * y)
            with pytest.raises(RuntimeError, match="compile the function that calls"):
                call(forward_ad.make_dual(x, torch.ones(5)), y)


def test_compiled_autograd(found):
    call = compiled(lambda x, y: x.sin() * y)
    for _ in range(3):
        inputs = leaves((5,), (5,))
        call(*inputs).sum().backward()
    inputs = leaves((5,), (5,))
    want = torch.autograd.grad((inputs[0].sin() * inputs[1]).sum(), inputs)
    with torch._dynamo.compiled_autograd._enable(lambda gm: torch.compile(gm, backend="bascule")):
        for x in inputs:
            x.grad = None
        call(*inputs).sum().backward()
    torch.testing.assert_close([x.grad for x in inputs], list(want))


@needs_version
def test_inputs_that_do_not_arrive_as_given_are_not_passed_by(found):
    """An input of no gradient that is computed from others: AOTAutograd detaches it."""
    call = compiled(lambda x, y: x.sin() + y.detach().exp())
    for _ in range(3):
        x, y = leaves((5,), (5,))
        call(x, y * 2).sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos())
        assert y.grad is None
    assert found and not any(found)


@needs_version
def test_autocast(found):
    """Tensors that were cast when the forward was traced are not cast again, whatever holds when the backward runs."""

    def function(x, w):
        y = torch.nn.functional.linear(x, w)
        return y, torch.linalg.vector_norm(y.double(), dim=-1) @ torch.ones(4, dtype=torch.float64)

    call = compiled(function)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    for inside in (False, True, False, True):
        results = []
        for called in (call, function):
            weights = w.clone().requires_grad_()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y, norm = called(x, weights)
                if inside:
                    norm.backward()
            if not inside:
                norm.backward()
            results.append((y.detach(), norm.detach(), weights.grad))
        assert results[0][0].dtype == torch.bfloat16
        torch.testing.assert_close(*results)
    with torch.no_grad():
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                torch.testing.assert_close(call(x, w), function(x, w))
    assert found == [True, True]


@needs_version
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_loss_of_some_outputs(found, enabled, layout):
    """The others have no gradient, of which the backward is given zeros; under compiled autograd too."""

    def function(x, y):
        z = (x.sin() * y).contiguous(memory_format=layout)
        return z, (z * z).sum(), z.exp() * 1

    call = compiled(function)
    for used in ((1,), (1,), (1,), (0, 1), (2,), (0, 1, 2)):
        inputs = leaves((2, 3, 4, 5), (2, 3, 4, 5))
        want = torch.autograd.grad(sum(function(*inputs)[i].sum() for i in used), inputs)
        outs = call(*inputs)
        loss = sum(outs[i].sum() for i in used)
        backend = torch._dynamo.compiled_autograd._enable(lambda gm: torch.compile(gm, backend="bascule"))
        with backend if enabled else nullcontext():
            loss.backward()
        torch.testing.assert_close([x.grad for x in inputs], list(want))
    assert found == [True]


@needs_version
def test_a_kept_graph_with_a_loss_of_some_outputs(found):
    call = compiled(lambda x: (x.sin(), (x * x).sum()))
    for _ in range(3):
        (x,) = leaves((5,))
        y, loss = call(x)
        for n in range(1, 4):
            (got,) = torch.autograd.grad(loss if n < 3 else y.sum(), x, retain_graph=True)
            torch.testing.assert_close(got, (2 * x if n < 3 else x.cos()).detach())
    assert found == [True]


def test_without_direct_calls_all_go_through_the_wrappers(found):
    call = compiled(lambda x: x.sin(), options={"direct_calls": False})
    for _ in range(3):
        (x,) = leaves((5,))
        call(x).sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos())
    assert not found


@needs_version
def test_inputs_that_are_views_and_are_saved(found):
    def function(x, w):
        return (x.sin() * w).sum(1)

    call = compiled(function)
    for _ in range(3):
        base, w = leaves((4, 6), (5,))
        got, want = (
            torch.autograd.grad(called(base[:, 1:], w).square().sum(), (base, w)) for called in (call, function)
        )
        torch.testing.assert_close(got, want)
    assert found == [True]


@needs_version
def test_a_backward_within_a_backward(found):
    """Reentrant checkpoints run one: what is stored for the thread is in use then."""
    inner = compiled(lambda x: x.sin().exp())
    outer = torch.compile(lambda x: x.cos() * x, backend="bascule", options={"on_error": "raise"})
    for _ in range(3):
        (x,) = leaves((5,))
        torch.utils.checkpoint.checkpoint(lambda x: inner(outer(x)), outer(x), use_reentrant=True).sum().backward()
        got, x.grad = x.grad, None
        y = x.cos() * x
        (y.cos() * y).sin().exp().sum().backward()
        torch.testing.assert_close(got, x.grad)
    assert True in found


def test_sizes_that_change(found):
    call = compiled(lambda x, y: (x * y).relu(), dynamic=True)
    for rows in (3, 5, 7, 5):
        inputs = leaves((rows, 4), (rows, 4))
        got, want = call(*inputs), (inputs[0] * inputs[1]).relu()
        torch.testing.assert_close(got, want)
        tangent = torch.randn(rows, 4)
        torch.testing.assert_close(*(torch.autograd.grad(out, inputs, tangent) for out in (got, want)))


@needs_version
def test_dynamo_does_not_trace_a_backward_that_it_left_a_function_for(found, monkeypatch):
    """It would look for graphs in what a backward does in Python."""
    folders = tuple(str(Path(package.__file__).parent) for package in (bascule, frontend, runtime))
    traced, original = [], convert_frame._compile

    def note(code, *args, **kwargs):
        traced.append(code.co_filename)
        return original(code, *args, **kwargs)

    monkeypatch.setattr(convert_frame, "_compile", note)

    def step(x):
        loss = (x.sin() * x).sum()
        loss.backward()
        return loss * 2

    trained = torch.compile(step, backend="bascule", options={"on_error": "raise"})
    for _ in range(3):
        (x,) = leaves((4, 3))
        trained(x)
        torch.testing.assert_close(x.grad, x.cos() * x + x.sin())
    assert __file__ in traced
    assert not [file for file in traced if file.startswith(folders)]
    assert True in found
