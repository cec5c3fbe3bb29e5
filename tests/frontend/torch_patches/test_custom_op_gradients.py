"""Custom operators whose gradients look at data: one graph, forward and backward, and the gradients of eager."""

import pytest
import torch
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from functorch.compile import make_boxed_func

import bascule
from bascule.cudagraphs import unsafe_operators


@torch.library.custom_op("bascule_tests::grouped", mutates_args=())
def grouped(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    out, start = x.new_zeros(x.shape[0], w.shape[2]), 0
    for i, end in enumerate(ends.tolist()):
        out[start:end] = x[start:end] @ w[i] * scale
        start = end
    return out


@grouped.register_fake
def _(x, w, ends, scale=1.0):
    return x.new_empty(x.shape[0], w.shape[2])


def setup(ctx, inputs, output):
    x, w, ends, scale = inputs
    ctx.save_for_backward(x, w)
    ctx.ends, ctx.scale = ends, scale


def gradients(ctx, gradient):
    x, w = ctx.saved_tensors
    gx, gw, start = torch.zeros_like(x), torch.zeros_like(w), 0
    for i, end in enumerate(ctx.ends.tolist()):
        gx[start:end] = gradient[start:end] @ w[i].t() * ctx.scale
        gw[i] = x[start:end].t() @ gradient[start:end] * ctx.scale
        start = end
    return gx if ctx.needs_input_grad[0] else None, gw, None, None


grouped.register_autograd(gradients, setup_context=setup)


def model(x, w, ends):
    y = grouped(x.sin(), w.transpose(1, 2), ends, 0.5)
    return (grouped(y.relu(), w, ends) * 2).pow(2).mean()


def leaves(rows=6, needs=(True, True)):
    torch.manual_seed(rows)
    x, w = torch.randn(rows, 4), torch.randn(3, 4, 4)
    return x.requires_grad_(needs[0]), w.requires_grad_(needs[1]), torch.tensor([1, rows // 2, rows])


def result_and_gradients(function, x, w, ends):
    result = function(x, w, ends)
    result.backward()
    return result.detach(), x.grad, w.grad


@pytest.mark.parametrize("needs", [(True, True), (False, True), (True, False)])
def test_one_graph(needs):
    compiled = torch.compile(model, backend="bascule", fullgraph=True, options={"on_error": "raise"})
    got = result_and_gradients(compiled, *leaves(needs=needs))
    torch.testing.assert_close(got, result_and_gradients(model, *leaves(needs=needs)))


def test_other_groups_and_sizes():
    compiled = torch.compile(model, backend="bascule", fullgraph=True, dynamic=True, options={"on_error": "raise"})
    for rows in (6, 9, 13):
        got = result_and_gradients(compiled, *leaves(rows))
        torch.testing.assert_close(got, result_and_gradients(model, *leaves(rows)))


def test_strides_of_gradients():
    """The second operand is a transposed view: what comes out has its strides, in the graph and when it runs."""

    def function(x, w, ends):
        return grouped(x, w.transpose(1, 2), ends).sum()

    x, w, ends = leaves()
    torch.compile(function, backend="bascule", fullgraph=True)(x, w, ends).backward()
    found = w.grad
    assert found.is_contiguous()
    w.grad = None
    function(x, w, ends).backward()
    torch.testing.assert_close(found, w.grad)


def test_eager_is_left_alone():
    before = gradients
    compiled = torch.compile(model, backend="bascule", fullgraph=True)
    compiled(*leaves()).backward()
    assert grouped._backward_fn is before and grouped._setup_context_fn is setup


@torch.library.custom_op("bascule_tests::scaled_in_place", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


def writes_first(ctx, gradient):
    gradient.mul_(3)
    return gradient if gradient.sum().item() > -1e9 else None


scaled.register_autograd(writes_first, setup_context=lambda ctx, inputs, output: None)


def test_a_formula_that_wrote_before_it_looked():
    """Its writes cannot be taken back: Dynamo leaves it to eager, as it would without us."""

    def function(x):
        return scaled(x.sin()).pow(2).sum()

    x = torch.randn(5, requires_grad=True)
    with pytest.raises(Exception, match="_local_scalar_dense"):
        torch.compile(function, backend="bascule", fullgraph=True)(x)
    torch.compile(function, backend="bascule")(x).backward()
    torch.testing.assert_close(x.grad, 18 * x.detach().sin() * x.detach().cos())


def test_no_cuda_graph_holds_either(monkeypatch):
    """Nor the gradient, nor the operator itself: both wait for the GPU."""
    found = []

    def compiler(gm, inputs, **direction):
        monkeypatch.setattr(unsafe_operators, "on_gpu", lambda x: True)
        found.append({str(node.target): reason for node, reason in unsafe_operators.unrecordable(gm.graph).items()})
        return make_boxed_func(gm.forward)

    def backend(gm, inputs):
        return compile_with_autograd(gm, inputs, compiler, {})

    torch.compile(model, backend=backend, fullgraph=True)(*leaves()).backward()
    forward, backward = found
    assert "as its gradient does" in forward["bascule_tests.grouped.default"]
    assert "marked" in backward["bascule.gradient_of.default"]


def test_the_operator_is_known_to_explain():
    told = bascule.explain(model, *leaves())
    assert "gradient_of" in str(told)
