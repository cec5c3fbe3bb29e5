"""Compiled code raises as eager does on a CPU: indices out of range, integers divided by zero."""

import re

import pytest
import torch
from torch.nn import functional as F

import bascule

T = torch.tensor
NUMBERS = re.compile(r"-?\d+")
ROW = torch.arange(4.0)
LATE = torch.zeros(300, 500, dtype=torch.int64)
LATE[77, 3], LATE[77, 4] = -6, 9
CASES = {
    "index": (lambda x, i: x[i] * 2, (ROW, T([1, -4, 3])), T([1, 4, 3])),
    "index, from the end": (lambda x, i: x[i] * 2, (ROW, T([1, -4, 3])), T([1, -5, 3])),
    "index, the second": (lambda x, i: x[:, None][None, :, 0][T([0, 0, 0]), i], (ROW, T([1, 2, 3])), T([1, 4, 3])),
    "gather": (lambda x, i: x.gather(0, i) * 2, (ROW, T([1, 3])), T([1, 4])),
    "gather, negative": (lambda x, i: x.gather(0, i) * 2, (ROW, T([1, 3])), T([-1, 3])),
    "index_select": (lambda x, i: x.index_select(-1, i) * 2, (ROW.expand(3, 4), T([1, 3])), T([-1, 3])),
    "take": (lambda x, i: x.take(i) * 2, (ROW.view(2, 2), T([1, -4])), T([1, -5])),
    "embedding": (lambda x, i: F.embedding(i, x) * 2, (torch.ones(4, 3), T([0, 3])), T([0, 4])),
    "scatter": (lambda x, i: x.scatter(0, i, 1.0), (ROW, T([1, 3])), T([1, 4])),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), (ROW, T([1, 3])), T([1, -1])),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i, x, "amax"), (ROW, T([1, 3])), T([1, -1])),
    "index_put": (lambda x, i: x.index_put((i,), T(5.0)), (ROW, T([1, -4])), T([1, 4])),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2]), (ROW, T([1, 3])), T([1, 4])),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:2]), (ROW, T([1, 3])), T([1, 4])),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), (ROW, T([1, -4])), T([1, -5])),
    "put": (lambda x, i: x.put(i, x[:2]), (ROW, T([1, -4])), T([1, 4])),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), (torch.ones(2, 3), T([0, -100])), T([0, 3])),
    "max_unpool": (lambda x, i: F.max_unpool1d(x, i, 2), (torch.ones(1, 1, 2), T([[[0, 3]]])), T([[[0, 9]]])),
    "max_unpool, negative": (
        lambda x, i: F.max_unpool2d(x, i, 2),
        (torch.ones(2, 1, 1, 2), T([[[[0, 3]]], [[[1, 2]]]])),
        T([[[[0, 3]]], [[[-1, 2]]]]),
    ),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x[:2], "prod"), (ROW, T([1, 3])), T([1, -1])),
    "of no dimensions": (lambda x, i: x[0].gather(0, i), (ROW, T(0)), T(1)),
    "the first of several": (lambda x, i: x[i] * 2, (ROW, T([1, -4, 3])), T([1, 7, -9])),
    "of i32": (lambda x, i: x.index_select(0, i), (ROW, T([1, 3], dtype=torch.int32)), T([1, 4], dtype=torch.int32)),
    "computed": (lambda x, i: x[i * 2 - 1], (ROW, T([1, 2])), T([1, 3])),
    "many": (lambda x, i: x[i].sum(-1), (ROW, torch.zeros(300, 500, dtype=torch.int64)), LATE),
    "floor_divide": (lambda x, i: x // i, (T([7, -7]), T([2, 2])), T([2, 0])),
    "trunc": (lambda x, i: torch.div(x, i, rounding_mode="trunc"), (T([7, -7]), T([2, 2])), T([2, 0])),
    "remainder": (lambda x, i: x % i, (T([7, -7]), T([2, 2])), T([2, 0])),
    "fmod": (lambda x, i: torch.fmod(x, i), (T([7, -7]), T([2, 2])), T([2, 0])),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_raises_where_eager_does(name, dynamic):
    function, (x, right), wrong = CASES[name]
    call = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    torch.testing.assert_close(call(x, right), function(x, right))
    with pytest.raises((IndexError, RuntimeError)) as eager:
        function(x, wrong)
    with pytest.raises(
        eager.type, match=r"aten\.\w+\.\w+: (index -?\d+ is out of bounds|integers are divided by zero)"
    ) as told:
        call(x, wrong)
    assert {*NUMBERS.findall(str(eager.value))} <= {*NUMBERS.findall(str(told.value))}
    assert any(__file__ in note for note in told.value.__notes__)
    torch.testing.assert_close(call(x, right), function(x, right))


def test_no_elements_are_divided():
    def f(x, n, chosen):
        m = x[:, chosen.nonzero()[:, 0]]
        return torch.ones_like(m) // n[:, None] + m

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        call = torch.compile(f, backend="bascule", fullgraph=True, options={"on_error": "raise"})
        x, n = torch.arange(12).view(3, 4), T([1, 0, 2])
        none, some = T([False] * 4), T([True, False, True, True])
        torch.testing.assert_close(call(x, n, none), f(x, n, none))
        torch.testing.assert_close(call(x, n + 1, some), f(x, n + 1, some))
        with pytest.raises(RuntimeError, match="integers are divided by zero"):
            call(x, n, some)


def test_more_places_than_elements():
    function = lambda x, mask, source: x.masked_scatter(mask, source) * 2  # noqa: E731
    call = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    x, mask, source = torch.randn(4, 3), T([True, False, True, False])[:, None], torch.randn(6)
    torch.testing.assert_close(call(x, mask, source), function(x, mask, source))
    with pytest.raises(RuntimeError, match="more places under the mask than elements of the source, which has 6"):
        call(x, ~mask | mask, source)


def in_cond(x, i):
    return torch.cond(x.sum() > 0, lambda x, i: x[i] * 2, lambda x, i: x[i] * 3, (x, i))


def in_switch(x, i):
    from torch._higher_order_ops.switch import switch

    return switch((x.sum() > 0).long(), (lambda x, i: x[i] * 3, lambda x, i: x[i] * 2), (x, i))


SWITCHED = hasattr(torch.ops.higher_order, "switch")  # as of PyTorch 2.14


@pytest.mark.parametrize("f", [in_cond, *([in_switch] if SWITCHED else [])])
def test_the_body_of_a_conditional(f):
    call = torch.compile(f, backend="bascule", options={"on_error": "raise"})
    torch.testing.assert_close(call(ROW, T([1, 3])), f(ROW, T([1, 3])))
    with pytest.raises(IndexError, match=r"aten.index.Tensor: index 4 is out of bounds for dimension 0 with size 4"):
        call(ROW, T([1, 4]))


def test_a_training_step():
    """The forward checks, once a tensor of indices; the backward need not."""

    def loss(table, i):
        return (F.embedding(i, table) * F.embedding(i, table).sin()).sum()

    table = torch.randn(4, 3, requires_grad=True)
    explanation = bascule.explain(loss, table, T([0, 3]))
    assert [graph.assertions for graph in explanation.graphs] == [1, 0]
    assert not any(graph.aten for graph in explanation.graphs) and "1 assertion about elements" in str(explanation)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[T([2, 0, 1])],
        lambda x: x[torch.arange(4).flip(0)],
        lambda x: x.take_along_dim(x.argsort(0), 0),
        lambda x: x.gather(0, x.argmax(0, keepdim=True)),
        lambda x: x.long() // 3 + (x / 0).nan_to_num(0, 0, 0).long(),
    ],
)
def test_what_is_plain_to_see_is_not_checked(function):
    (graph,) = bascule.explain(function, ROW).graphs
    assert "_assert_async" not in graph.wrapper


def test_without():
    function, (x, right), _ = CASES["gather"]
    (graph,) = bascule.explain(function, x, right, options={"index_asserts": False}).graphs
    assert "_assert_async" not in graph.wrapper
    with torch._inductor.config.patch(assert_indirect_indexing=False):
        (graph,) = bascule.explain(function, x, right).graphs
    assert "_assert_async" not in graph.wrapper


def test_nothing_falls_back():
    function, (x, right), _ = CASES["gather"]
    call = torch.compile(function, backend="bascule", options={"fallback": "error"})
    torch.testing.assert_close(call(x, right), function(x, right))
