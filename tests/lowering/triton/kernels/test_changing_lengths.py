"""Attention and products of lengths that change from call to call, compiled once, in the interpreter: against eager in f64, without scores."""

from functools import partial

import pytest
import torch
from bascule.frontend.graph_split.flex_attention import Change, gradients
from bascule.frontend.graph_split.flex_attention import attention as flex
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from bascule.reporting.counters import reset_counters
from tests.lowering.triton.kernels.test_attention import MASKS, PIPELINE, attention, causal, heads
from tests.lowering.triton.kernels.test_attention_training import check
from tests.lowering.triton.kernels.test_flex_attention import JOINT, SCORES
from tests.lowering.triton.kernels.test_flex_attention import MASKS as FLEX_MASKS

BF16 = torch.bfloat16
LENGTHS = [(70, 50), (33, 90), (80, 17)]  # queries and keys, with which one compiled function is called in turns


def compiled(function, **options):
    torch._dynamo.reset()
    reset_counters()
    return torch.compile(function, backend="bascule", options={"on_error": "raise", "target": "interpret", **options})


def changing(x, *dims):
    for dim in dims:
        torch._dynamo.mark_dynamic(x, dim)
    return x


def step(function, inputs, seed=None):
    """The result, and the gradients of the inputs where there is a `seed`."""
    if seed is None:
        return [function(*inputs)]
    result = function(*inputs)
    return [result.detach(), *torch.autograd.grad(result, [x for x in inputs if x.requires_grad], seed)]


def compare(function, cases, dims=(2,), train=False, times=4):
    """Calls `function`, compiled once, with each of `cases`; returns how many kernels its graphs call, and that nothing else runs."""
    made = compiled(function, target="auto" if cases[0][0].is_cuda else "interpret")
    for given in cases:
        wide = [x.double() if x.is_floating_point() else x for x in given]
        for x in (*given, *wide):
            x.requires_grad_(train and x.is_floating_point())
        generator, sizes = torch.Generator().manual_seed(1), function(*wide).shape
        seed = torch.randn(sizes, generator=generator).to(given[0]) if train else None
        found = step(made, [changing(x, *dims) for x in given], seed)
        check(found, step(function, wide, None if seed is None else seed.double()), given[0].dtype, times)
    counters = bascule.counters()
    assert counters["graphs"]["compiled"] == 1 + train and not counters["aten"]
    return counters["kernels"]["launches"]


def cases(alike, columns=32, dtype=BF16):
    return [heads(dtype, rows, rows if alike else keys, 16, columns) for rows, keys in LENGTHS]


@pytest.mark.parametrize("alike", [True, False], ids=["self", "cross"])
@pytest.mark.parametrize("name", [*MASKS, "none"])
def test_results(name, alike):
    assert compare(partial(attention, change=MASKS.get(name, lambda s: s)), cases(alike)) == 1


@pytest.mark.parametrize("alike", [True, False], ids=["self", "cross"])
@pytest.mark.parametrize("name", ["none", "window", "key >= row", "tril"])
def test_training(name, alike):
    """The statistics of rows, and the gradients of queries, and of keys and values: those of as many columns are one kernel."""
    function = partial(attention, change=MASKS.get(name, lambda s: s))
    assert compare(function, cases(alike, columns=16, dtype=torch.float16), train=True) == 2 + 3


def block(x, weight, table):
    """T5's: a bias of distances, looked up in `table`, which has a gradient; batch and length change."""
    batch, length, width = x.shape
    q, k, v = (y.view(batch, length, 3, width // 3).transpose(1, 2) for y in (x, x * weight, x.roll(1, 2)))
    places = torch.arange(length)
    far = (places[None] - places[:, None]).clamp(-8, 7) + 8
    scores = q @ k.transpose(-1, -2) + F.embedding(far, table).permute(2, 0, 1)
    return (torch.softmax(scores.float(), -1).type_as(x) @ v).transpose(1, 2).reshape(batch, length, width)


def test_a_block_whose_batch_changes_too():
    def given(batch, length):
        generator = torch.Generator().manual_seed(length)
        sizes = (batch, length, 48), (48,), (16, 3)
        return [torch.randn(size, generator=generator).to(BF16) for size in sizes]

    made = compiled(block)
    for batch, length in ((2, 70), (3, 33), (5, 20)):
        x, weight, table = given(batch, length)
        wide = [y.double().requires_grad_() for y in (x, weight, table)]
        changing(x, 0, 1)
        seed = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(BF16)
        found = step(made, [y.requires_grad_() for y in (x, weight, table)], seed)
        check(found, step(block, wide, seed.double()), BF16, times=8)
    counters = bascule.counters()
    assert counters["graphs"]["compiled"] == 2 and not any("product" in name for name in counters["aten"])


@pytest.mark.parametrize("alike", [True, False], ids=["self", "cross"])
def test_the_gradient_of_a_bias(alike):
    """The batch shares it: the gradient is summed over that where it is computed."""

    def function(q, k, v, bias):
        return torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v

    made = compiled(function)
    for rows, keys in LENGTHS:
        q, k, v = heads(BF16, rows, rows if alike else keys, 16, 32)
        bias = torch.randn(1, q.shape[1], rows, k.shape[2], generator=torch.Generator().manual_seed(2)).to(BF16)
        wide = [x.double().requires_grad_() for x in (q, k, v, bias)]
        seed = torch.randn(*q.shape[:3], 32, generator=torch.Generator().manual_seed(1)).to(BF16)
        inputs = [changing(x, 2).requires_grad_() for x in (q, k, v)] + [changing(bias, 2, 3).requires_grad_()]
        check(step(made, inputs, seed), step(function, wide, seed.double()), BF16, 4)
    counters = bascule.counters()
    assert counters["kernels"]["launches"] <= 8 and not counters["aten"]


def test_dropout_of_weights():
    """Values that are an identity show the weights; what is dropped is dropped in the gradient too."""

    def function(q, k, v):
        return F.dropout(torch.softmax((q @ k.transpose(-1, -2)).float(), -1), 0.25).type_as(v) @ v

    made = compiled(function)
    for rows, keys in LENGTHS:
        q, k, _ = heads(BF16, rows, keys, 16, 16)
        v = torch.eye(keys, 96).expand(*k.shape[:2], keys, 96).to(BF16).contiguous()
        seed = torch.randn(*q.shape[:3], 96, generator=torch.Generator().manual_seed(1)).to(BF16)
        inputs = [changing(x, 2).requires_grad_() for x in (q, k, v)]
        found, *_, gradient = step(made, inputs, seed)
        weights = found[..., :keys].double()
        whole = torch.softmax(q.double() @ k.double().transpose(-1, -2), -1) / 0.75
        assert 0.2 < (weights == 0).double().mean() < 0.3
        check([found[..., :keys]], [torch.where(weights == 0, 0, whole)], BF16, 4)
        check([gradient], [weights.transpose(-1, -2) @ seed.double()], BF16, 4)
    assert not any("product" in name for name in bascule.counters()["aten"])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "score, mask", [("softcap", "causal"), ("as they are", "window"), ("by batch and head", "none")]
)
def test_flex_attention(score, mask):
    def function(q, k, v):
        blocks = create_block_mask(FLEX_MASKS[mask], None, None, q.shape[2], k.shape[2], device="cpu")
        return flex_attention(q, k, v, score_mod=SCORES[score], block_mask=blocks)

    given = [heads(BF16, rows, keys, 16, 32, (2, 4)) for rows, keys in ((200, 180), (137, 200), (230, 250))]
    made = compiled(function)
    for inputs in given:
        found = made(*(changing(x, 2) for x in inputs))
        check([found], [function(*(x.double() for x in inputs))], BF16)
    counters = bascule.counters()
    assert counters["graphs"]["compiled"] == 2 and not any("product" in name for name in counters["aten"])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("transposed", [False, True], ids=["heads first", "rows first"])
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_steps_of_flex_attention(monkeypatch, mask, transposed):
    """The block mask is made by what is not compiled; queries, keys and values lie by heads, or as a model's projections leave them."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)  # of gradients on a CPU

    @torch.compiler.disable
    def block_mask(rows, keys):
        return create_block_mask(FLEX_MASKS[mask], None, None, rows, keys, device="cpu")

    def function(q, k, v):
        return flex_attention(q, k, v, block_mask=block_mask(q.shape[2], k.shape[2]))

    made = compiled(function)
    for length in (200, 137, 330):
        given = heads(BF16, length, length, 16, 32, (2, 4))
        if transposed:
            given = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in given]
        wide = [x.double().requires_grad_() for x in given]
        seed = torch.randn(*given[0].shape[:3], 32, generator=torch.Generator().manual_seed(1)).to(BF16)
        for x in given:
            torch._dynamo.maybe_mark_dynamic(x.requires_grad_(), 2)
        found, wanted = step(made, given, seed), step(function, wide, seed.double())
        check(found, wanted, BF16)
        assert [x.stride() for x in found] == [x.stride() for x in wanted]
    assert not any("product" in name for name in bascule.counters()["aten"])


@pytest.mark.parametrize("score, mask", [("softcap", "causal"), ("by batch and head", "rows without keys")])
def test_gradients_of_flex_attention(score, mask):
    change, allow = Change(SCORES[score], ()), Change(FLEX_MASKS[mask], ())
    joint = Change(lambda s, b, h, i, j, g: [JOINT[score](s, b, h, i, j, g), None, None, None, None], ())

    def backward(q, k, v, out, logarithm, seed):
        return gradients(q, k, v, out, logarithm, (seed, None), change, joint, allow, 0.25)[:3]

    def given(rows, keys):
        q, k, v = heads(BF16, rows, keys, 16, 32, (2, 4))
        seed = torch.randn(*q.shape[:3], 32, generator=torch.Generator().manual_seed(1)).to(BF16)
        wide = [x.double().requires_grad_() for x in (q, k, v)]
        out, logarithm, _ = flex(*wide, change, allow, 0.25)
        out.register_hook(lambda g: g.nan_to_num(0))
        wanted = torch.autograd.grad(out, wide, seed.double())
        return (q, k, v, out.detach().to(BF16), logarithm.detach().float(), seed), wanted

    everything = [given(rows, keys) for rows, keys in LENGTHS]
    traced = make_fx(backward, tracing_mode="symbolic")(*everything[0][0])
    pipeline = PIPELINE.replace("fuse-attention", "fuse-attention,fuse-products")
    made = compiled(traced, pipeline=pipeline)
    for inputs, wanted in everything:
        check(made(*(changing(x, 2) for x in inputs)), [x.nan_to_num(0) for x in wanted], BF16)
    assert bascule.counters()["kernels"]["launches"] <= 5 and not bascule.counters()["aten"]


@pytest.mark.parametrize("turned", [False, True])
def test_products(turned):
    """Where every size may change; one that an attention asked for and did not take stays on tensor cores."""

    def function(x, y, bias):
        return F.relu(torch.baddbmm(bias, x, y.transpose(1, 2) if turned else y))

    made = compiled(function, pipeline=PIPELINE)
    for batch, rows, summed, columns in ((2, 70, 40, 50), (3, 33, 90, 20), (4, 130, 17, 300)):
        generator = torch.Generator().manual_seed(rows)
        right = (batch, columns, summed) if turned else (batch, summed, columns)
        sizes = (batch, rows, summed), right, (batch, 1, columns)
        x, y, bias = (torch.randn(size, generator=generator).to(BF16) for size in sizes)
        changing(x, 0, 1, 2), changing(y, 0, 1, 2), changing(bias, 0, 2)
        check([made(x, y, bias)], [function(x.double(), y.double(), bias.double())], BF16)
    assert bascule.counters()["kernels"]["launches"] == 1 and not bascule.counters()["aten"]


def test_causal_of_one_graph_for_all_lengths():
    """The automatic kind: the second length makes it a symbol, the third compiles nothing."""
    made = compiled(partial(attention, change=causal))
    for length in (40, 70, 33):
        given = heads(BF16, length, length, 16, 16)
        check([made(*given)], [attention(*(x.double() for x in given), causal)], BF16)
    assert bascule.counters()["graphs"]["compiled"] == 2 and not bascule.counters()["aten"]
