"""Gradients that a compiled backward is given."""

import weakref

import pytest
import torch
from bascule.frontend.aot_runtime.tangents import tangents_of, with_memory


def test_an_input_is_freed_after_its_last_use():
    """The wrapper holds none while the backward runs: it would add to the peak."""

    def backward(args):
        given = [weakref.ref(x) for x in args]
        args.clear()
        assert [x() for x in given] == [None, None]
        return ["done"]

    assert with_memory(backward, (0, 1))([torch.ones(3), torch.ones(4)]) == ["done"]


def test_zeros_without_memory_have_it():
    seen = []
    run = with_memory(lambda args: seen.extend(args) or [], (1,))
    run([torch.ones(2), torch._efficientzerotensor((3, 4))])
    assert not seen[1]._is_zerotensor() and seen[1].stride() == (4, 1) and torch.equal(seen[1], torch.zeros(3, 4))


def test_what_negates_or_conjugates_its_memory_is_written_down():
    seen = []
    run = with_memory(lambda args: seen.extend(args) or [], (0, 1))
    x, z = torch.randn(3, 4), torch.randn(3, dtype=torch.complex64)
    run([torch._neg_view(x), z.conj()])
    assert not seen[0].is_neg() and torch.equal(seen[0], -x)
    assert not seen[1].is_conj() and torch.equal(
        torch.view_as_real(seen[1]), torch.view_as_real(z.conj().resolve_conj())
    )


def test_tangents_are_known_by_name():
    graph = torch.fx.Graph()
    for name, value in (("primals_1", torch.ones(1)), ("tangents_1", torch.ones(1)), ("tangents_2", 3)):
        graph.placeholder(name).meta["val"] = value
    assert tangents_of(graph) == (1,)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.unfold(0, 3, 1),
        lambda x: x.as_strided((3, 3), (1, 1)),
        lambda x: x.expand(4, 5),
        lambda x: x[::2],
        lambda x: (x.unfold(0, 2, 1), x.sin()),
    ],
)
def test_gradients_of_outputs_that_lie_over_themselves(view):
    """Each element has a gradient of its own, though the output's elements share addresses."""

    def loss(function):
        x = torch.arange(5.0, requires_grad=True)
        outputs = function(x)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum((y * torch.arange(y.numel()).view(y.shape)).sum() for y in outputs).backward()
        return x.grad

    compiled = torch.compile(lambda x: view(x * 1), backend="bascule", options={"on_error": "raise"})
    for _ in range(2):  # the second call is past AOTAutograd's wrappers
        torch.testing.assert_close(loss(compiled), loss(view))
