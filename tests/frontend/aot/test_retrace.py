"""`compile_fx_inner` of graphs that write in place, which no AOTAutograd has seen."""

import logging
from unittest.mock import patch

import pytest
import torch
from bascule.frontend.aot.retrace import _only_reads, with_values, writes_to
from torch._subclasses import FakeTensorMode
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from bascule.entry.compile_fx import compile_fx_inner


@torch.library.custom_op("bascule_tests::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@torch.library.custom_op("bascule_tests::halve_and_sum", mutates_args=("x",))
def halve_and_sum(x: torch.Tensor) -> torch.Tensor:
    x.mul_(0.5)
    return x.sum()


@halve_and_sum.register_fake
def _(x):
    return x.new_empty(())


def on_a_copy(x, y):
    copy = x.clone()
    add_to(copy, y)
    x.copy_(copy)
    return (copy * 2,)


def on_an_input(x, y):
    add_to(x, y)
    return (x * 2,)


def with_a_result(x, y):
    total = halve_and_sum(x)
    return (x + total, y * total)


def between_views(x, y):
    copy = x.clone()
    copy.add_(y)
    copy[1:].mul_(3)
    return (copy, copy[0] + 1)


def an_input_twice(x, y):
    x.add_(y)
    first = x * 2
    x.copy_(first.sin())
    return (first, x + 1)


def the_input_itself(x, y):
    x.mul_(y)
    return (x, y + 1)


FUNCTIONS = [on_a_copy, on_an_input, with_a_result, between_views, an_input_twice, the_input_itself]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_written_is_seen(function, mode):
    def inputs():
        return [torch.arange(1.0, 13).reshape(3, 4), torch.linspace(-1, 1, 12).reshape(3, 4)]

    gm = make_fx(function, tracing_mode=mode)(*inputs())
    compiled = compile_fx_inner(gm, inputs(), options={"on_error": "raise"})
    for _ in range(2):
        given, want = inputs(), inputs()
        arguments = list(given)
        out, expected = compiled(arguments), function(*want)
        torch.testing.assert_close(tuple(out), expected)
        torch.testing.assert_close(given, want)
        assert [any(x is y for y in given) for x in out] == [any(x is y for y in want) for x in expected]


def test_inputs_may_come_as_a_tuple():
    gm = make_fx(lambda x: (x + 1,))(torch.zeros(3))
    x = torch.randn(3)
    (out,) = compile_fx_inner(gm, [x], options={"on_error": "raise"})((x,))
    torch.testing.assert_close(out, x + 1)


def test_a_graph_of_no_inputs_takes_an_empty_tuple():
    gm = make_fx(lambda: (torch.arange(4) * 2,))()
    (out,) = compile_fx_inner(gm, (), options={"on_error": "raise"})(())
    assert out.tolist() == [0, 2, 4, 6]


def test_an_operator_that_could_write_and_is_given_nothing_to_write_to():
    calls = []
    library = torch.library.Library("bascule_tests_optional", "FRAGMENT")
    library.define("count(Tensor x, Tensor(a!)? into) -> ()")
    library.impl("count", lambda x, into: calls.append(type(x)), "CompositeExplicitAutograd")

    def function(x):
        torch.ops.bascule_tests_optional.count(x, None)
        return (x + 1,)

    x = torch.randn(4)
    graph = make_fx(function)(x)
    compiled = compile_fx_inner(graph, [x])
    calls.clear()
    for _ in range(2):
        (got,) = compiled([x])
        torch.testing.assert_close(got, x + 1)
    assert calls == [torch.Tensor] * 2


def test_a_list_of_tensors_among_the_inputs_is_given_flat():
    def function(x, into):
        add_to(into[0], x)
        add_to(into[1], into[0])
        return (x * 2,)

    def inputs():
        return torch.full((3,), 2.0), [torch.ones(3), torch.arange(3.0)]

    compiled = compile_fx_inner(make_fx(function)(*inputs()), inputs())
    (x, into), (x0, wanted) = inputs(), inputs()
    (got,) = compiled([x, *into])
    (expected,) = function(x0, wanted)
    torch.testing.assert_close([got, *into], [expected, *wanted])


def fails(x, y):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("call", "written"),
    [
        (torch.add, []),
        (torch.Tensor.add_, ["x"]),
        (lambda x, y: torch.add(x, 1, out=y), ["y"]),
        (lambda x, y: y[1:].t().copy_(x.sum()), ["y"]),
        (lambda x, y: torch.nn.functional.relu(x, inplace=True) + torch.nn.functional.relu(y), ["x"]),
        (torch.ops.bascule_tests.add_to.default, ["x"]),
        (fails, ["x", "y"]),  # what is not known may write
        (torch._C._functorch._wrap_for_grad, []),  # of a level that is not there
    ],
)
def test_which_arguments_a_call_writes(call, written):
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    node = graph.call_function(call, (x, 1) if call is torch._C._functorch._wrap_for_grad else (x, y))
    with FakeTensorMode():
        values = {x: torch.randn(4, 4), y: torch.randn(4, 4)}
    found = writes_to(torch.fx.GraphModule(torch.nn.Module(), graph, "gm"), node, values)
    assert [x.name for x in found] == written
    assert all(value._version == 0 for value in values.values())


@pytest.mark.parametrize(
    ("target", "named", "reads"),
    [
        (torch._make_dual, (), True),  # as torch 2.11 traces forward-mode differentiation
        (torch.sin, (), True),
        (torch.sin, ("out",), False),
        (torch.relu_, (), False),
        (len, (), False),
    ],
)
def test_functions_that_only_read_are_told_by_their_operators(target, named, reads):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    assert _only_reads(graph.call_function(target, (x,), dict.fromkeys(named, x))) is reads


def test_values_of_sizes_that_are_symbols():
    """The shapes of `baddbmm` are told by an `expand`, which PyTorch's native dispatcher has for numbers alone."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    given = [mode.from_tensor(torch.randn(sizes), static_shapes=False) for sizes in ((2, 1, 7), (2, 5, 3), (2, 3, 7))]
    gm = symbolic_trace(lambda c, x, w: torch.baddbmm(c, x, w).relu())
    with_values(gm, given)
    product = gm.graph.find_nodes(op="call_function", target=torch.baddbmm)[0]
    assert product.meta["val"].shape == (given[1].shape[0], given[1].shape[1], given[2].shape[2])
    with patch.object(logging.getLogger("torch._subclasses.fake_tensor"), "exception") as told:
        assert writes_to(gm, product, dict(zip(product.args, given))) == []
    assert not told.called
