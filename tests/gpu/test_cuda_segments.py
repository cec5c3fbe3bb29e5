"""Rows that are added to rows chosen by data, as sums of segments or of all points, on a GPU: against f64, the same each time."""

import pytest
import torch

import bascule
from tests.dialect.scatters.segment_cases import (
    GATHERED,
    LARGE_TILES,
    MERGED,
    OPTIONS,
    SORT,
    WORDS,
    check,
    embedding,
    index_add,
    words,
)


def compiled(function, options=OPTIONS, **kwargs):
    return torch.compile(function, backend="bascule", options=options, **kwargs)


def sorts() -> int:
    return sum(count for name, count in bascule.counters()["aten"].items() if name.startswith(SORT))


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("width", [1, 24, 768])
def test_gradient_of_an_embedding(kind, dtype, width):
    table = torch.randn(3000, width, dtype=dtype, device="cuda", requires_grad=True)
    g = torch.randn(8, 1025, width, dtype=dtype, device="cuda")
    check(compiled(embedding(5)), embedding(5), words(kind, [8, 1025], 3000).cuda(), table, g)
    assert sorts() == 1


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("options", [MERGED, LARGE_TILES], ids=["64", "1024"])
@pytest.mark.parametrize("count", [1, 700, 1024, 8200, 65536])
def test_orders_made_by_kernels(kind, options, count):
    x, g = torch.randn(3000, 40, device="cuda"), torch.randn(count, 40, device="cuda")
    index, call = words(kind, [count], 3000).cuda(), compiled(index_add, options)
    check(call, index_add, index, x, g)
    first = call(x, index, g)
    assert sorts() == 0 and all(torch.equal(call(x, index, g), first) for _ in range(5))


def test_orders_made_by_kernels_of_many_rows():
    """Keys of 64 bits."""
    rows = 3_000_000
    x, g = torch.randn(rows, 8, device="cuda"), torch.randn(5000, 8, device="cuda")
    check(compiled(index_add, LARGE_TILES), index_add, words("random", [5000], rows).cuda(), x, g)
    assert sorts() == 0


def test_of_dynamic_sizes():
    call = compiled(index_add, dynamic=True)
    for count, rows, width in ((3000, 40, 24), (5, 33, 130), (0, 7, 12), (20500, 40000, 17)):
        x, g = torch.randn(rows, width, device="cuda"), torch.randn(count, width, device="cuda")
        check(call, index_add, words("zipf", [count], rows).cuda(), x, g)


def test_the_same_each_time():
    x, g = torch.randn(100, 64, device="cuda"), torch.randn(100_000, 64, device="cuda")
    index, call = words("zipf", [100_000], 100).cuda(), compiled(index_add)
    first = call(x, index, g)
    assert all(torch.equal(call(x, index, g), first) for _ in range(5))


def test_where_it_saves_memory_traffic():
    """By the costs, without being told to: a table of 100 MB in bf16."""
    table = torch.randn(50_000, 1024, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    g = torch.randn(8192, 1024, dtype=torch.bfloat16, device="cuda")
    check(compiled(embedding(), {"on_error": "raise"}), embedding(), words("zipf", [8192], 50_000).cuda(), table, g)
    assert sorts() == 0 and bascule.counters()["kernels"]["launches"] > 2


def test_layers_over_a_graph():
    """Messages along a million edges: gathered, scaled, added and squashed, and their gradients; one order serves all layers."""

    def layers(x, source, target, weight):
        for _ in range(3):
            x = torch.zeros_like(x).index_add(0, target, x[source] * weight).tanh()
        return x

    nodes, edges, width = 100_000, 1_000_000, 128
    x, g = torch.randn(nodes, width, device="cuda"), torch.randn(nodes, width, device="cuda")
    ends = torch.randint(0, nodes, [2, edges], device="cuda")
    weight = torch.rand(edges, 1, device="cuda") * 0.3

    def gradient(function, dtype):
        own = x.to(dtype).requires_grad_()
        out = function(own, *ends, weight.to(dtype))
        return out.detach().double(), torch.autograd.grad(out, own, g.to(dtype))[0].double()

    got = gradient(compiled(layers, {"on_error": "raise"}), torch.float32)
    for ours, exact in zip(got, gradient(layers, torch.float64)):
        torch.testing.assert_close(ours, exact, rtol=1e-5, atol=1e-5)
    assert sorts() == 2


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("rows, width", [(32, 8), (2, 768), (64, 1), (100, 12)])
def test_sums_over_all_points(kind, rows, width):
    x, g = torch.randn(rows, width, device="cuda"), torch.randn(300 * 511, width, device="cuda")
    index, call = words(kind, [300 * 511], rows).cuda(), compiled(index_add, GATHERED)
    check(call, index_add, index, x, g)
    first = call(x, index, g)
    assert all(torch.equal(call(x, index, g), first) for _ in range(5)) and not sorts()


def test_gradient_of_a_relative_position_bias():
    """By the costs: 262,144 places of 8 heads, most of them in two of 32 rows, added over a batch of 16."""

    def bias(table, index, g):
        out = torch.nn.functional.embedding(index, table).permute(2, 0, 1)[None].expand_as(g)
        return torch.autograd.grad(out, table, g)[0]

    table, g = torch.randn(32, 8, device="cuda", requires_grad=True), torch.randn(16, 8, 512, 512, device="cuda")
    index = words("runs", [512, 512], 32).cuda()
    got = compiled(bias, {"on_error": "raise"})(table, index, g)
    want = bias(table.detach().double().requires_grad_(), index, g.double())
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=2e-2)
    again = compiled(bias, {"on_error": "raise"})(table, index, g)
    assert torch.equal(got, again)
