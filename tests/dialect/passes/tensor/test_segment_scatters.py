"""Rows that are added to rows chosen by data, as sums of segments, through the interpreted kernels."""

import pytest
import torch

import bascule
from tests.dialect.scatters.segment_cases import (
    MERGED,
    OPTIONS,
    SORT,
    WORDS,
    check,
    embedding,
    index_add,
    index_put,
    words,
)

INTERPRET = OPTIONS | {"target": "interpret"}
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def compiled(function, options=INTERPRET, **kwargs):
    return torch.compile(function, backend="bascule", options=options, **kwargs)


def sorts() -> int:
    """How many calls of a sort are in what was compiled."""
    return sum(count for name, count in bascule.counters()["aten"].items() if name.startswith(SORT))


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradient_of_an_embedding(kind, dtype):
    table, g = torch.randn(50, 24, dtype=dtype, requires_grad=True), torch.randn(13, 211, 24, dtype=dtype)
    check(compiled(embedding()), embedding(), words(kind, [13, 211], 50), table, g)
    assert sorts() == 1


@pytest.mark.parametrize("padding", [0, 16])
def test_words_without_a_gradient(padding):
    table, g = torch.randn(50, 24, requires_grad=True), torch.randn(400, 24)
    index = words("runs", [400], 50)
    index[::3] = padding
    check(compiled(embedding(padding)), embedding(padding), index, table, g)
    assert sorts() == 1


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("function", [index_add, index_put])
def test_additions_to_a_tensor(function, dtype):
    x, g = ((torch.randn(*shape) * 9).to(dtype) for shape in ([30, 3, 7], [150, 3, 7]))
    check(compiled(function), function, words("zipf", [150], 30), x, g)
    assert sorts() == 1


@pytest.mark.parametrize("count", [1, 31, 64, 65, 2048, 2100])
@pytest.mark.parametrize("width", [1, 5, 130])
def test_lengths_of_indices_and_rows(count, width):
    x, g = torch.randn(40, width), torch.randn(count, width)
    check(compiled(index_add), index_add, words("runs", [count], 40), x, g)
    assert sorts() == 1


@pytest.mark.parametrize(
    "kind, count", [*((kind, 700) for kind in WORDS), *(("zipf", n) for n in (1, 63, 64, 65, 2048))]
)
def test_orders_made_by_kernels(kind, count):
    x, g = torch.randn(40, 5), torch.randn(count, 5)
    check(compiled(index_add, MERGED | {"target": "interpret"}), index_add, words(kind, [count], 40), x, g)
    assert sorts() == 0


def test_orders_made_by_kernels_of_what_is_dropped():
    table, g = torch.randn(50, 24, requires_grad=True), torch.randn(400, 24)
    index = words("runs", [400], 50)
    index[::3] = 16
    check(compiled(embedding(16), MERGED | {"target": "interpret"}), embedding(16), index, table, g)
    assert sorts() == 0


def test_one_order_made_by_kernels_serves_two_sums():
    def layers(x, index, g):
        return (x.index_add(0, index, g) * 2).index_add(0, index, g.tanh())

    x, g, index = torch.randn(30, 40), torch.randn(90, 40), words("zipf", [90], 30)
    want = layers(x.double(), index, g.double())
    torch.testing.assert_close(
        compiled(layers, MERGED | {"target": "interpret"})(x, index, g).double(), want, rtol=1e-5, atol=1e-5
    )
    with_one = bascule.counters()["kernels"]["launches"]
    compiled(index_add, MERGED | {"target": "interpret"})(x, index, g)
    assert sorts() == 0 and with_one < 2 * (bascule.counters()["kernels"]["launches"] - with_one)


def test_of_no_indices():
    x = torch.randn(40, 20)
    check(compiled(index_add), index_add, words("random", [0], 40), x, torch.randn(0, 20))


def test_many_rows():
    """More than keys of 16 bits tell apart, and a program of each."""
    x, g = torch.randn(33000, 16), torch.randn(200, 16)
    check(compiled(index_add), index_add, words("random", [200], 33000), x, g)
    assert sorts() == 1


def test_of_dynamic_sizes():
    call = compiled(index_add, dynamic=True)
    for count, rows, width in ((3000, 40, 24), (5, 33, 130), (2050, 300, 17)):
        check(call, index_add, words("zipf", [count], rows), torch.randn(rows, width), torch.randn(count, width))
    assert bascule.counters()["graphs"] == {"compiled": 1} and sorts() == 1


def test_any_number_of_words():
    call = compiled(embedding(3))
    for batch, length in ((2, 33), (3, 70), (1, 2), (40, 90)):
        index = words("zipf", [batch, length], 50)
        torch._dynamo.mark_dynamic(index, [0, 1])
        g = torch.randn(batch, length, 24)
        torch._dynamo.mark_dynamic(g, [0, 1])
        check(call, embedding(3), index, torch.randn(50, 24, requires_grad=True), g)


def test_one_order_serves_two_sums():
    def layers(x, index, others, g):
        first = x.index_add(0, index, g)
        second = (first * 2).index_add(0, index, g.tanh())
        return second.index_add(0, others, g)

    x, g = torch.randn(30, 40), torch.randn(90, 40)
    index, others = words("zipf", [90], 30), words("runs", [90], 30)
    want = layers(x.double(), index, others, g.double())
    torch.testing.assert_close(compiled(layers)(x, index, others, g).double(), want, rtol=1e-5, atol=1e-5)
    assert sorts() == 2


def test_an_argument_that_is_changed():
    def step(x, index, g):
        x.index_add_(0, index, g)
        return x.sum(0)

    x, index, g = torch.randn(30, 40), words("zipf", [90], 30), torch.randn(90, 40)
    want = x.double().index_add(0, index, g.double())
    got = compiled(step)(x, index, g)
    torch.testing.assert_close(x.double(), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.double(), want.sum(0), rtol=1e-5, atol=1e-5)
    assert sorts() == 1


def test_a_table_that_is_used_twice():
    """The gradient of tied weights: that of the words beside that of the product, in one kernel."""

    def loss(table, index):
        return (torch.nn.functional.embedding(index, table).tanh() @ table.T).square().mean()

    table, index = torch.randn(50, 24), words("zipf", [200], 50)

    def gradient(function, table):
        table = table.clone().requires_grad_()
        function(table, index).backward()
        return table.grad

    torch.testing.assert_close(
        gradient(compiled(loss), table).double(), gradient(loss, table.double()), rtol=1e-5, atol=1e-6
    )
    assert sorts() == 1


def test_an_index_that_is_spread_over_the_rows():
    def spread(x, index, g):
        return x.scatter_add(0, index[:, None].expand(-1, x.shape[1]), g)

    check(compiled(spread), spread, words("zipf", [90], 30), torch.randn(30, 40), torch.randn(90, 40))
    assert sorts() == 1


def test_what_is_no_addition_of_whole_rows():
    x, g = torch.randn(30, 40), torch.randn(90, 40)
    index, others, each = words("zipf", [90], 30), torch.randperm(30), torch.randint(0, 30, [90, 40])
    cases = (
        lambda: x.index_add(1, index, g.T[:30]),
        lambda: x.scatter_add(0, each, g),
        lambda: x.index_copy(0, others, g[:30]),
        lambda: x.scatter_add(0, index[:, None].expand(90, 20), g),  # half of each row
    )
    for case in cases:
        torch._dynamo.reset()
        torch.testing.assert_close(compiled(case)(), case(), rtol=1e-5, atol=1e-5)
        assert sorts() == 0


def test_what_costs_too_little_to_sort_for():
    x, index, g = torch.randn(30, 40), words("zipf", [90], 30), torch.randn(90, 40)
    compiled(index_add, {"target": "interpret", "on_error": "raise"})(x, index, g)
    assert sorts() == 0
