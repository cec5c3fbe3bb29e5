"""Sums at the rows of a permutation, gathered by its inverse."""

import pytest
import torch
from bascule.frontend.fx.permutations import inverses, inverted_by, is_permutation
from bascule.frontend.fx_passes.permuted_rows import gather_permuted_rows
from torch.fx.experimental.proxy_tensor import make_fx

import bascule

aten = torch.ops.aten
SCATTERS = (aten.index_put.default, aten._unsafe_index_put.default, aten.index_add.default)


def traced(function, *inputs):
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    gm.graph.eliminate_dead_code()
    return gm


def inverse_of(p):
    return torch.ops.aten.index_put(torch.empty_like(p), [p], torch.arange(p.shape[0]))


def zeros(x, rows=None):
    return x.new_zeros(rows or x.shape[0], *x.shape[1:])


def put(base, index, x):
    return aten.index_put(base, [index], x, True)


# Each adds rows of x at places that the first column of k sorts.
SUMS = {
    "sort": lambda k, x: put(zeros(x), k.sort()[1], x),
    "descending": lambda k, x: put(zeros(x), k.sort(descending=True)[1], x),
    "argsort": lambda k, x: put(zeros(x), k.argsort(), x),
    "an inverse": lambda k, x: put(zeros(x), inverse_of(k.argsort(stable=True)), x),
    "an inverse by sorting": lambda k, x: put(zeros(x), k.argsort().argsort(), x),
    "sorted places, descending": lambda k, x: put(zeros(x), k.argsort().argsort(descending=True), x),
    "an inverse's inverse": lambda k, x: put(zeros(x), inverse_of(inverse_of(k.argsort())), x),
    "two in a row": lambda k, x: put(zeros(x, 6), k.argsort() // 2, x),
    "three in a row, of an inverse": lambda k, x: put(zeros(x, 4), inverse_of(k.argsort()) // 3, x),
    "divided otherwise": lambda k, x: put(zeros(x, 6), torch.div(k.argsort(), 2, rounding_mode="floor"), x),
    "index_add": lambda k, x: zeros(x).index_add(0, k.argsort(), x),
    "of numbers": lambda k, x: put(zeros(x[:, 0]), k.argsort(), x[:, 0]),
    "of more dimensions": lambda k, x: put(zeros(x.reshape(12, 5, 1)), k.argsort(), x.reshape(12, 5, 1)),
    "to something": lambda k, x: put(x.sin(), k.argsort(), x),
    "to full": lambda k, x: put(torch.full((12, 5), 0.0), k.argsort(), x),
    "to ones": lambda k, x: put(torch.full((12, 5), 1.0), k.argsort(), x),
    "integers, two in a row": lambda k, x: put(zeros(x, 6).int(), k.argsort() // 2, (x * 10).int()),
    "of 16 bits, two in a row": lambda k, x: put(zeros(x, 6).bfloat16(), k.argsort() // 2, x.bfloat16()),
    "integers": lambda k, x: put(zeros(x).long(), k.argsort(), (x * 10).long()),
}


def given():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 4, (12,), generator=generator), torch.randn(12, 5, generator=generator)


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_gathered(name):
    k, x = given()
    gm = traced(SUMS[name], k, x)
    assert gather_permuted_rows(gm.graph) == 1
    gm.graph.lint()
    gm.graph.eliminate_dead_code()
    gm.recompile()
    torch.testing.assert_close(gm(k, x), SUMS[name](k, x))  # dtypes too
    assert not any(node.target in SCATTERS and node.args[-1] is True for node in gm.graph.nodes)


KEPT = {
    "no permutation": lambda k, x: put(zeros(x), k, x),
    "places of a matrix": lambda k, x: put(zeros(x, 5), x.argsort(1)[:, 0], x),
    "places of topk": lambda k, x: put(zeros(x), k.topk(12)[1], x),
    "another number of rows": lambda k, x: put(zeros(x, 7), k.argsort() // 2, x),
    "more rows": lambda k, x: put(zeros(x, 13), k.argsort(), x),
    "a part of a permutation": lambda k, x: put(zeros(x), k.argsort()[:8], x[:8]),
    "a remainder": lambda k, x: put(zeros(x, 6), k.argsort() % 6, x),
    "one row for all": lambda k, x: put(zeros(x), k.argsort(), x[:1]),
    "no sum": lambda k, x: aten.index_put(zeros(x), [k.argsort()], x),
    "logical": lambda k, x: put(zeros(x).bool(), k.argsort(), x > 0),
    "columns": lambda k, x: aten.index_put(zeros(x.t()), [None, k.argsort()], x.t(), True),
    "columns by index_add": lambda k, x: zeros(x.t()).index_add(1, k.argsort(), x.t()),
    "several times": lambda k, x: zeros(x).index_add(0, k.argsort(), x, alpha=2),
    "numbers from 1 on": lambda k, x: put(
        zeros(x, 13), torch.ops.aten.index_put(k, [k.argsort()], torch.arange(1, 13)), x
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_sums_stay(name):
    assert gather_permuted_rows(traced(KEPT[name], *given()).graph) == 0


def test_an_inverse_that_stands_behind_is_not_taken():
    def function(k, x):
        p = k.argsort()
        first = put(zeros(x), p, x)
        return first, put(zeros(x), p, first), inverse_of(p)

    k, x = given()
    gm = traced(function, k, x)
    assert gather_permuted_rows(gm.graph) == 2
    gm.graph.lint()
    gm.recompile()
    made = [node for node in gm.graph.nodes if node.target is aten.index_put.default]
    assert len(made) == 2  # one inverse for both, beside the user's own
    for one, other in zip(gm(k, x), function(k, x)):
        assert torch.equal(one, other)


def test_permutations():
    def function(k):
        p = k.argsort()
        q = inverse_of(p)
        return p, q, q.sort()[1], p.sort(descending=True)[1], k, p + 0

    graph = traced(function, given()[0]).graph
    p, q, r, down, k, moved = graph.output_node().args[0]
    assert [*map(is_permutation, (p, q, r, down, k, moved, None))] == [True, True, True, True, False, False, False]
    assert inverted_by(q) is p and inverted_by(r) is q and inverted_by(down) is None and inverted_by(p) is None
    assert [*inverses(p)] == [q] and [*inverses(q)] == [p, r]


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_rows_sorted_by_expert_and_back(target):
    """As a mixture of experts sorts its rows: no gradient is scattered."""

    def function(x, w, k):
        order = k.argsort()
        rows = x[order // 2] * w[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return rows.sin()[back].view(-1, 2, x.shape[1]).sum(1)

    def run(f):
        generator = torch.Generator().manual_seed(0)
        x, w = torch.randn(40, 24, generator=generator), torch.randn(80, generator=generator)
        k = torch.randint(0, 8, (80,), generator=generator)
        x.requires_grad_(), w.requires_grad_()
        out = f(x, w, k)
        out.backward(torch.linspace(-1, 1, out.numel()).reshape(out.shape))
        return out, x.grad, w.grad

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise", "target": target})
    for one, other in zip(run(compiled), run(function)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    told = bascule.explain(function, torch.randn(40, 24, requires_grad=True), torch.randn(80), torch.arange(80))
    assert "gather-permuted-rows" in str(told)
