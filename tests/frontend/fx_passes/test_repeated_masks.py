"""Attention with masks that repeat themselves, or whose neighbours lie apart."""

import pytest
import torch
from bascule.frontend.fx_passes.attention_masks import ATTENTION, simplify_masks
from torch.nn.functional import scaled_dot_product_attention as attention

from tests.frontend.against_eager import check

BATCH, HEADS, N, WIDTH = 4, 3, 40, 16


def positions(table):
    """A bias a head of how far apart two positions are: the heads are last in memory."""
    apart = (torch.arange(N)[None, :] - torch.arange(N)[:, None]).clamp(-8, 8) + 8
    return torch.nn.functional.embedding(apart, table).permute(2, 0, 1).unsqueeze(0)


def bias(q, k, v, table, given):
    return attention(q, k, v, positions(table))


def bias_under_nothing(q, k, v, table, given):
    everything = (torch.arange(N)[None, None, :, None] >= 0).expand(BATCH, -1, N, N)
    return attention(q, k, v, torch.where(everything, positions(table), -3e38))


def bias_under_a_triangle(q, k, v, table, given):
    seen = torch.arange(N)[None, None, None, :] <= torch.arange(N)[None, None, :, None]
    return attention(q, k, v, torch.where(seen.expand(BATCH, -1, N, N), positions(table), -3e38))


def bias_under_what_is_given(q, k, v, table, given):
    seen = given[:, None, None, :].expand(BATCH, 1, N, N)
    return attention(q, k, v, torch.where(seen, positions(table), -3e38))


def padding(q, k, v, table, given):
    return attention(q, k, v, given[:, None, None, :].expand(BATCH, 1, N, N))


def rows(q, k, v, table, given):
    """All keys or none; a row without keys is not asked for."""
    return attention(q, k, v, (given[:, None, :, None] * 0.5).expand(BATCH, 1, N, N))


def written(q, k, v, table, given):
    mask = torch.zeros(N, N).t()
    mask[3:].fill_(0.25)
    mask.mul_(given[0].float())
    return attention(q, k, v, mask)


def chosen_before_a_write(q, k, v, table, given):
    seen = given[:, None, None, :].clone()
    mask = torch.where(seen.expand(BATCH, 1, N, N), 0.5, -1.0)
    seen.logical_not_()
    return attention(q, k, v, mask) * seen.sum()


# What attention is given, as sizes; None: what it was given before.
GIVEN = {
    bias: (1, HEADS, N, N),
    bias_under_nothing: (1, HEADS, N, N),
    bias_under_a_triangle: (1, HEADS, N, N),
    bias_under_what_is_given: (BATCH, HEADS, N, N),
    padding: (BATCH, 1, 1, N),
    rows: (BATCH, 1, N, N),
    written: None,
    chosen_before_a_write: None,
}


def inputs():
    torch.manual_seed(0)
    tensors = [torch.randn(BATCH, HEADS, N, WIDTH, requires_grad=True) for _ in range(3)]
    given = torch.rand(BATCH, N) < 0.7
    given[:, 0] = True
    return *tensors, torch.randn(17, HEADS, requires_grad=True), given


@pytest.mark.parametrize("function", GIVEN, ids=lambda f: f.__name__)
def test_masks(function):
    """The mask that attention is given when the graph of Dynamo's runs agrees with what the graph says of it."""
    seen, told = [], []

    class Shapes(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            if node.target in ATTENTION:
                mask = self.map_nodes_to_values(node.args[3], node)
                seen.append((mask.shape, mask.stride(-1)))
            return result

    def backend(gm, _):
        before = next(node.args[3] for node in gm.graph.nodes if node.target in ATTENTION)
        simplify_masks(gm)
        gm.graph.lint()
        (after,) = (node.args[3] for node in gm.graph.nodes if node.target in ATTENTION)
        assert (after is before) == (GIVEN[function] is None)
        told.append(after.meta["example_value"])
        return Shapes(gm).run

    torch._dynamo.reset()
    got = torch.compile(function, backend=backend, dynamic=False)(*inputs())
    torch.testing.assert_close(got, function(*inputs()))
    if GIVEN[function] is not None:
        assert seen == [(GIVEN[function], 1)]
    assert seen == [(value.shape, value.stride(-1)) for value in told]


@pytest.mark.parametrize("function", GIVEN, ids=lambda f: f.__name__)
def test_compiled(function):
    check(function, inputs(), rtol=1e-4, atol=1e-5)
