"""Clones that nobody sees go before a joint graph is split; those that somebody might see stay."""

import torch
from bascule.frontend.copies import drop_copies
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
