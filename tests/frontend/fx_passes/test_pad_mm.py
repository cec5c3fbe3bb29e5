"""Products with unaligned rows are padded: the same numbers, and aligned rows."""

import itertools

import pytest
import torch
from bascule.frontend.fx_passes import pad_mm, padding_costs
from bascule.frontend.fx_passes.cse import merge_equal_nodes
from bascule.frontend.fx_passes.pad_mm import pad_products
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def padded(function, *inputs):
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    merge_equal_nodes(gm.graph)
    pad_products(gm.graph, devices=["cpu"])
    gm.graph.lint()
    gm.recompile()
    return gm


def rows(gm):
    """The lengths of the rows of all operands and results of products, in elements."""
    products = [node for node in gm.graph.nodes if node.target in pad_mm.PRODUCTS]
    values = [x.meta["val"] for node in products for x in (*node.args[-2:], node)]
    return [max(x.stride()) for x in values]


def head(x, w, g):
    """A language model's head, and its backward."""
    return x @ w.t(), g @ w, g.t() @ x


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(pad_mm, "WORK", 1)
    monkeypatch.setattr(pad_mm, "LEAST", 8)
    monkeypatch.setattr(padding_costs, "BYTES", 1e30)  # copies cost nothing


def test_a_head_of_a_vocabulary_of_any_size(small):
    x, w, g = (torch.randn(*s, dtype=torch.bfloat16) for s in ((24, 16), (37, 16), (24, 37)))
    gm = padded(head, x, w, g)
    assert all(length % 8 == 0 for length in rows(gm))
    pads = [node for node in gm.graph.nodes if node.target is aten.constant_pad_nd.default]
    assert len(pads) == 2, "the weights and the gradient, each once"
    for want, got in zip(head(x, w, g), gm(x, w, g)):
        torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("sizes", [(37, 41, 43), (40, 41, 48), (40, 48, 43), (37, 40, 48)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_every_dimension(small, sizes, transposed):
    m, k, n = sizes
    a = torch.randn(k, m, dtype=torch.float16) if transposed[0] else torch.randn(m, k, dtype=torch.float16)
    b = torch.randn(n, k, dtype=torch.float16) if transposed[1] else torch.randn(k, n, dtype=torch.float16)

    def function(a, b):
        return (a.t() if transposed[0] else a) @ (b.t() if transposed[1] else b)

    gm = padded(function, a, b)
    assert all(length % 8 == 0 for length in rows(gm))
    torch.testing.assert_close(gm(a, b), function(a, b), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "inputs",
    [
        (torch.randn(24, 16), torch.randn(16, 37)),
        (torch.randn(24, 16).half(), torch.randn(16, 40).half()),
        (torch.randn(4, 16).half(), torch.randn(16, 37).half()),
    ],
    ids=["f32", "aligned", "small"],
)
def test_what_stays_as_it_is(small, inputs):
    gm = padded(lambda a, b: a @ b, *inputs)
    assert [node.target for node in gm.graph.nodes if node.op == "call_function"] == [aten.mm.default]


@pytest.mark.parametrize("sizes", [(37, 41, 43), (40, 48, 43), (37, 40, 48)])
def test_a_layer_with_a_bias(small, sizes):
    m, k, n = sizes
    x, w, bias = (torch.randn(*s, dtype=torch.bfloat16) for s in ((m, k), (n, k), (n,)))

    def function(x, w, bias):
        return torch.nn.functional.gelu(torch.addmm(bias, x, w.t()))

    gm = padded(function, x, w, bias)
    assert all(length % 8 == 0 for length in rows(gm))
    torch.testing.assert_close(gm(x, w, bias), function(x, w, bias), rtol=2e-2, atol=2e-2)


def test_a_matrix_that_is_added_is_not_padded(small):
    gm = padded(torch.addmm, *(torch.randn(*s, dtype=torch.half) for s in ((40, 43), (40, 48), (48, 43))))
    assert not any(node.target is aten.constant_pad_nd.default for node in gm.graph.nodes)


def fake_padded(function, *sizes):
    """The graph of a function of matrices in bf16 that nobody has to compute."""
    with FakeTensorMode():
        gm = make_fx(function)(*(torch.empty(*size, dtype=torch.bfloat16) for size in sizes))
    pad_products(gm.graph, devices=["cpu"])
    return [node.meta["val"].shape for node in gm.graph.nodes if node.target is aten.mm.default]


@pytest.mark.parametrize(
    "reader",
    [
        lambda x: x,
        torch.nn.functional.gelu,
        lambda x: torch.log_softmax(x, -1),
        lambda x: x.view(128, 128, 30522).float().sum(-1),
    ],
    ids=["none", "pointwise", "rows", "of a view"],
)
@pytest.mark.parametrize("k", [128, 129, 768])
def test_a_sum_of_any_length_is_padded_whatever_reads_it(k, reader):
    """Unaligned rows of the result cost more than those that a kernel stores, or reads where it stores them elsewhere."""
    found = fake_padded(lambda a, b: reader(a @ b), (16384, k), (k, 30522))
    assert found == [(16384, 30528)]


def test_a_product_reads_padded_rows():
    """One too small to be padded itself: its operand is no copy."""
    sizes = (16384, 768), (768, 30522), (30522, 64)
    with FakeTensorMode():
        gm = make_fx(lambda a, b, c: a @ b @ c)(*(torch.empty(*size, dtype=torch.bfloat16) for size in sizes))
    assert pad_products(gm.graph, devices=["cpu"]) == 1
    first, second = gm.graph.find_nodes(op="call_function", target=aten.mm.default)
    assert first.meta["val"].shape == (16384, 30528)
    assert second.args[0].target is aten.slice.Tensor and second.args[0].args[0] is first


def test_no_choice_is_slower_than_another():
    sizes = (64, 129, 1001, 4100, 30522, 50257)
    for m, k, n in itertools.product(sizes, sizes, sizes):
        wanted = tuple(-size % 8 for size in (m, k, n))
        unaligned = [width > 0 for width in wanted]
        for copied in (False, True):
            chosen = padding_costs.best_widths((m, k, n), wanted, 2, copied)
            costs = [
                padding_costs._seconds((m, k, n), widths, unaligned, 2, copied)
                for widths in (chosen, (0, 0, 0), wanted)
            ]
            assert costs[0] == min(costs)


def test_products_on_the_cpu_stay():
    gm = make_fx(lambda a, b: a @ b, tracing_mode="fake")(
        torch.randn(2000, 1500).half(), torch.randn(1500, 2001).half()
    )
    pad_products(gm.graph)
    assert not any(node.target is aten.constant_pad_nd.default for node in gm.graph.nodes)
