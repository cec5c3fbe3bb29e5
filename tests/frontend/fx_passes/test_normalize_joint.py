"""Before a joint graph is split, copies that nobody sees go, and those that somebody might see stay; a tensor beside itself becomes views and a
clone, and different tensors stay beside each other."""

import pytest
import torch
from bascule.frontend.fx_passes.normalize_joint import drop_copies, drop_unused_operands, expand_repeats
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def clones_left(function, *inputs: torch.Tensor) -> int:
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    expected = function(*inputs)
    drop_copies(gm.graph)
    gm.recompile()
    torch.testing.assert_close(gm(*inputs), expected)
    return len(gm.graph.find_nodes(op="call_function", target=aten.clone.default))


def test_a_copy_of_an_intermediate_goes():
    assert clones_left(lambda x: aten.clone(x.relu()) * 2, torch.randn(4, 6)) == 0


def test_of_a_copy_of_a_copy_none_stays():
    assert clones_left(lambda x: aten.clone(aten.clone(x.relu())) * 2, torch.randn(4, 6)) == 0


def test_copies_that_change_the_strides_stay():
    def function(x):
        return aten.clone(x.relu().t(), memory_format=torch.contiguous_format) * 2

    assert clones_left(function, torch.randn(4, 6)) == 1


def test_copies_of_part_of_a_tensor_stay():
    assert clones_left(lambda x: aten.clone(x.relu()[1:]) * 2, torch.randn(4, 6)) == 1


def test_results_that_are_copies_stay_apart():
    def function(x):
        y = x.relu()
        return y, aten.clone(y)

    assert clones_left(function, torch.randn(4, 6)) == 1


def test_copies_of_inputs_stay():
    assert clones_left(lambda x: aten.clone(x.view(-1)) * 2, torch.randn(4, 6)) == 1


def casts_left(function, *inputs: torch.Tensor) -> int:
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    expected = function(*inputs)
    drop_copies(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    assert torch.equal(gm(*inputs), expected)
    return len(gm.graph.find_nodes(op="call_function", target=aten._to_copy.default))


def test_casts_there_and_back():
    x = torch.randn(4, 6)
    assert casts_left(lambda x: x.relu().to(torch.float32).to(torch.bfloat16) * 2, x.bfloat16()) == 0
    assert casts_left(lambda x: x.relu().to(torch.float64).to(torch.float16) * 2, x.half()) == 0
    assert casts_left(lambda x: x.relu().to(torch.float64).to(torch.float32) * 2, x) == 0


def test_casts_that_round_or_have_other_readers_stay():
    x = torch.randn(4, 6)
    assert casts_left(lambda x: x.relu().to(torch.bfloat16).to(torch.float32) * 2, x) == 2
    assert casts_left(lambda x: x.relu().to(torch.bfloat16).to(torch.float16) * 2, x.half()) == 2

    def function(x):
        wide = x.relu().float()
        return wide.to(torch.bfloat16) * 2 + wide

    assert casts_left(function, x.bfloat16()) == 1
    assert casts_left(lambda x: x.float().bfloat16() * 2, x.bfloat16()) == 2, "the memory of an input"


def test_an_activation_that_is_cast_there_and_back_is_saved_once():
    saved = []
    w, v = torch.randn(8, 16, requires_grad=True), torch.randn(16, 8, requires_grad=True)

    @torch.compile(backend="bascule")
    def function(x, w, v):
        return torch.relu(x @ w).float() @ v

    x = torch.randn(4, 8)
    with (
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t),
    ):
        out = function(x, w, v)
    out.sum().backward()
    assert sorted(t.numel() for t in saved if t.dtype == torch.bfloat16).count(4 * 16) == 1


def test_a_relu_before_a_dropout_that_drops_nothing_is_saved_once():
    saved = []
    first, second = torch.randn(8, 16, requires_grad=True), torch.randn(16, 8, requires_grad=True)

    @torch.compile(backend="bascule")
    def function(x, w, v):
        return torch.nn.functional.dropout(torch.relu(x @ w), 0.0) @ v

    x = torch.randn(4, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        function(x, first, second).sum().backward()
    wide = {t.untyped_storage().data_ptr() for t in saved if t.numel() == 4 * 16}
    assert len(wide) == 1


def test_a_number_in_a_tensors_place_is_no_copy():
    assert casts_left(lambda x: aten._to_copy.default(2, dtype=torch.float32) * x.relu(), torch.randn(4)) == 1

    def function(x, y):
        return torch.vmap(lambda a, b: (a * b + 1).sum(0))(x, y)

    x, y = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4)
    torch.compile(function, backend="bascule")(x, y).sum().backward()
    torch.testing.assert_close(x.grad, y)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_tensor_beside_itself_becomes_views(dim):
    def function(x):
        y = x.cos()
        return aten.cat([y, y, y], dim) * 2

    x = torch.randn(4, 6)
    gm = make_fx(function, tracing_mode="fake")(x)
    expand_repeats(gm.graph)
    gm.recompile()
    assert not gm.graph.find_nodes(op="call_function", target=aten.cat.default)
    torch.testing.assert_close(gm(x), function(x), rtol=0, atol=0)
    for node in gm.graph.find_nodes(op="call_function", target=aten.view.default):
        assert node.meta["val"].shape == function(x).shape


@pytest.mark.parametrize("second", [lambda x: x.sin(), lambda x: x.cos()[:0], lambda x: x.cos().double()])
def test_different_tensors_stay_beside_each_other(second):
    gm = make_fx(lambda x: aten.cat([x.cos(), second(x)]), tracing_mode="fake")(torch.randn(4, 6))
    expand_repeats(gm.graph)
    assert gm.graph.find_nodes(op="call_function", target=aten.cat.default)


def test_what_is_repeated_is_not_saved_for_the_backward():
    saved = []

    def function(angle, x):
        table = torch.cat([angle, angle], -1).cos()
        return (x * table).sin()

    angle, x = torch.randn(16, 8), torch.randn(4, 16, 16, requires_grad=True)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        got = compiled(angle, x)
    assert torch.Size((16, 16)) not in saved
    (grad,) = torch.autograd.grad(got.sum(), x)
    exact = x.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(function(angle.double(), exact).sum(), exact)
    torch.testing.assert_close(grad, want.float())


@pytest.mark.parametrize(("training", "dropped"), [(True, 1), (False, 0)])
def test_statistics_are_no_operands_of_a_backward_in_training(training, dropped):
    x, w, mean, variance = torch.randn(4, 6, 3, 3), torch.rand(6), torch.rand(6), torch.rand(6)

    def function(g, x, w, mean, variance):
        saved = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0).add(1e-5).rsqrt()
        return aten.native_batch_norm_backward(g, x, w, mean, variance, *saved, training, 1e-5, [True] * 3)

    inputs = torch.randn_like(x), x, w, mean, variance
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    assert drop_unused_operands(gm.graph) == dropped
    (node,) = gm.graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default)
    assert (node.args[3] is None) == (node.args[4] is None) == training
    gm.recompile()
    for got, want in zip(gm(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(got, want)
