"""Attentions of joint graphs, whose backward computes probabilities again from saved statistics of rows."""

import pytest
import torch
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.partitioner.attention_statistics import save_attention_statistics
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten
EPS = 2.0**-8


def plain(q, k, v, bias, drop):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v


def causal(q, k, v, bias, drop):
    rows, keys = (torch.arange(x.shape[-2]) for x in (q, k))
    scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(keys > rows[:, None], -torch.inf)
    return torch.softmax(scores, -1) @ v


def in_f32(q, k, v, bias, drop):
    scores = q @ k.transpose(-1, -2) + bias
    return torch.softmax(scores.float(), -1).to(q.dtype) @ v


def dropped(q, k, v, bias, drop):
    return (torch.softmax(q @ k.transpose(-1, -2) + bias, -1) * drop / 0.75) @ v


def capped(q, k, v, bias, drop):
    return torch.softmax(torch.tanh(q @ k.transpose(-1, -2) / 5) * 5, -1) @ v


def grouped(q, k, v, bias, drop):
    k, v = (x[:, :1].repeat_interleave(3, 1) for x in (k, v))
    return plain(q, k, v, bias, drop)


def einsum(q, k, v, bias, drop):
    weights = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) + bias, -1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


TAKEN = {f.__name__: f for f in (plain, causal, in_f32, dropped, capped, grouped, einsum)}


def inputs(dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(0)
    sizes = (2, 3, 20, 16), (2, 3, 28, 16), (2, 3, 28, 24), (1, 3, 20, 28)
    made = [torch.randn(size, generator=generator).to(dtype).requires_grad_() for size in sizes]
    return [*made, (torch.rand(2, 3, 20, 28, generator=generator) > 0.25).to(dtype)]


def joint(function, leaves):
    def step(*args):
        y = function(*args)
        first, *others = y if isinstance(y, tuple) else (y,)
        tangent = torch.linspace(-1, 2, first.numel()).to(first.dtype).view(first.shape)
        found = torch.autograd.grad(first, args[:4], tangent, allow_unused=True)
        return [first, *others, *(x for x in found if x is not None)]

    return make_fx(step, decomposition_table(), tracing_mode="fake")(*leaves), step


def check(gm, step, leaves):
    """Against the step in f64."""
    wanted = step(*(x.detach().double().requires_grad_(x.requires_grad) for x in leaves))
    for got, want in zip(gm(*(x.detach() for x in leaves)), wanted, strict=True):
        assert bool(want.any())
        assert ((got.double() - want).abs() <= 4 * EPS * (want.abs() + want.abs().max())).all()


@pytest.mark.parametrize("name", TAKEN)
def test_it_computes_the_same(name):
    leaves = inputs()
    gm, step = joint(TAKEN[name], leaves)
    assert save_attention_statistics(gm.graph, ("cpu",)) == 1
    gm.graph.lint()
    gm.recompile()
    assert not gm.graph.find_nodes(op="call_function", target=aten._softmax_backward_data.default)
    check(gm, step, leaves)


@pytest.mark.parametrize("name", TAKEN)
def test_two_numbers_a_row_are_saved(name):
    gm, _ = joint(TAKEN[name], inputs())
    save_attention_statistics(gm.graph, ("cpu",))
    kept = [n for n in gm.graph.nodes if n.meta.get("recompute") == CheckpointPolicy.MUST_SAVE]
    assert [n.target for n in kept] == [aten.amax.default, aten.sum.dim_IntList]
    assert all(n.meta["val"].numel() == 2 * 3 * 20 for n in kept)
    again = [n for n in gm.graph.nodes if n.meta.get("recompute") == CheckpointPolicy.MUST_RECOMPUTE]
    large = {n for n in gm.graph.nodes if n.op == "call_function" and n.meta["val"].numel() == 2 * 3 * 20 * 28}
    assert large.intersection(again)


NOT = {
    "weights are a result": lambda q, k, v, *_: (lambda w: (w @ v, w))(torch.softmax(q @ k.transpose(-1, -2), -1)),
    "weights are squared": lambda q, k, v, *_: torch.softmax(q @ k.transpose(-1, -2), -1) ** 2 @ v,
    "weights are shifted": lambda q, k, v, *_: (torch.softmax(q @ k.transpose(-1, -2), -1) - 0.01) @ v,
    "along rows": lambda q, k, v, *_: torch.softmax(q @ k.transpose(-1, -2), -2) @ v,
    "no product": lambda q, k, v, bias, drop: torch.softmax(bias, -1).expand(2, 3, 20, 28) @ v,
    "deep": lambda q, k, v, *_: plain(q.repeat(1, 1, 1, 33), k.repeat(1, 1, 1, 33), v, None, None),
}


@pytest.mark.parametrize("name", NOT)
def test_what_is_left_alone(name):
    gm, _ = joint(NOT[name], inputs())
    assert save_attention_statistics(gm.graph, ("cpu",)) == 0


def test_only_what_kernels_take_and_where_they_are():
    for wide in (torch.float32, torch.float64):
        gm, _ = joint(plain, inputs(wide))
        assert save_attention_statistics(gm.graph, ("cpu",)) == 0
    gm, _ = joint(plain, inputs())
    assert save_attention_statistics(gm.graph) == 0


def test_a_row_of_which_a_finite_number_hides_all_keys():
    """Its maximum and its sum are apart: one number, their logarithm's sum, would round the sum away."""
    leaves = inputs()

    def hidden(q, k, v, bias, drop):
        scores = q @ k.transpose(-1, -2)
        return torch.softmax(torch.where(torch.arange(20)[:, None] < 3, -3e38, scores), -1) @ v

    gm, step = joint(hidden, leaves)
    assert save_attention_statistics(gm.graph, ("cpu",)) == 1
    gm.recompile()
    check(gm, step, leaves)
