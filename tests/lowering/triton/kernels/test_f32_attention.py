"""Attention in f32, its products in IEEE's f32 or in TF32, and heads of more than 256 in any type, in the interpreter: against eager in f64,
without scores in memory."""

from functools import partial

import pytest
import torch
from bascule.frontend.fx.fused_products import mark_products
from bascule.frontend.fx_passes import attention_structure
from bascule.frontend.graph_split.flex_attention import Change
from bascule.frontend.graph_split.flex_attention import attention as flex
from bascule.frontend.graph_split.flex_attention import gradients as of_flex
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from bascule.reporting.counters import reset_counters
from tests.lowering.triton.kernels.test_attention import EPS, MASKS, attention, heads
from tests.lowering.triton.kernels.test_attention_training import FORWARD, backward, gradients
from tests.lowering.triton.kernels.test_flex_attention import JOINT, SCORES, inputs
from tests.lowering.triton.kernels.test_flex_attention import MASKS as FLEX_MASKS

PRECISIONS = {
    "ieee": 2.0**-22,
    "tf32": 2.0**-11,
    torch.bfloat16: EPS[torch.bfloat16],
    torch.float16: EPS[torch.float16],
}
F32 = ["ieee", "tf32"]


@pytest.fixture(autouse=True)
def by_hand(monkeypatch):
    """Attention by hand in f32 is a kernel here too."""
    monkeypatch.setattr(attention_structure, "BY_HAND", (*attention_structure.NARROW, torch.float32))


@pytest.fixture
def precision(request):
    """The dtype and the distance of neighbours of what is multiplied, where that is asked for."""
    torch.backends.cuda.matmul.allow_tf32 = request.param == "tf32"
    yield torch.float32 if request.param in F32 else request.param, PRECISIONS[request.param]
    torch.backends.cuda.matmul.allow_tf32 = False


def check(found, wanted, eps, times=8):
    """To a part of the largest element, and of all."""
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one.isnan(), other.isnan()) and bool(other.any())
        error, other = (one.double() - other).abs().nan_to_num(0), other.abs().nan_to_num(0)
        assert (error <= times * eps * (other + other.max())).all(), float(error.max() / other.max())
        assert error.square().mean().sqrt() <= times * eps * other.square().mean().sqrt()


def compiled(function, dynamic=False, target="interpret"):
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": target}
    return torch.compile(function, backend="bascule", options=options, dynamic=dynamic)


def run(function, given, train):
    """The results of one and of f64, and how many kernels ran; nothing else may."""
    made = compiled(function, target="auto" if given[0].is_cuda else "interpret")
    wide = [x.double() for x in given]
    reset_counters()
    if not train:
        results = [made(*given)], [function(*wide)]
    else:
        with torch.no_grad():
            sizes = function(*wide).shape
        seed = torch.randn(sizes, generator=torch.Generator().manual_seed(1)).to(given[0])
        results = gradients(made, given, seed), gradients(function, wide, seed.double())
    counters = bascule.counters()
    assert not counters["aten"]
    return *results, counters["kernels"]["launches"]


SIZES = [
    (40, 50, 16, 16),
    (17, 33, 24, 40),
    (150, 70, 64, 64),
    (64, 128, 128, 128),
    (70, 90, 80, 112),
    (66, 40, 200, 32),
    (33, 65, 32, 256),
]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes, precision, train):
    dtype, eps = precision
    found, wanted, kernels = run(attention, heads(dtype, *sizes), train)
    assert kernels == (FORWARD + backward(*sizes[2:]) if train else 1)
    check(found, wanted, eps)


def test_factors_are_rounded_to_tf32_where_that_is_allowed():
    found = []
    for allowed in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        try:
            found.append(run(attention, heads(torch.float32, 40, 50, 32, 32), False))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    (exact, wanted, _), (rounded, _, _) = found
    errors = [float((one[0].double() - wanted[0]).abs().max()) for one in (exact, rounded)]
    assert errors[0] < 2.0**-20 and 2.0**-14 < errors[1] < 2.0**-8


LARGE = [(20, 40, 300, 16), (70, 66, 320, 320), (40, 70, 32, 400), (30, 50, 512, 512)]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("precision", PRECISIONS, indirect=True, ids=str)
@pytest.mark.parametrize("sizes", LARGE, ids=str)
def test_heads_of_more_than_256(sizes, precision, train):
    dtype, eps = precision
    given = [x * 0.3 for x in heads(dtype, *sizes, (1, 2))]
    found, wanted, kernels = run(attention, given, train)
    assert kernels == (FORWARD + 4 if train else 1)
    check(found, wanted, eps)


@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("name", MASKS)
def test_masks_by_places(name, precision):
    dtype, eps = precision
    found, wanted, kernels = run(partial(attention, change=MASKS[name]), heads(dtype, 90, 90, 16, 16), True)
    assert kernels == FORWARD + backward(16, 16)
    check(found, wanted, eps)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("rows, shared", [(100, 1), (100, 2), (3, 4)])
@pytest.mark.parametrize(
    "score, mask", [("softcap", "causal"), ("by batch and head", "window"), ("as they are", "none")]
)
def test_flex_attention(score, mask, rows, shared, precision):
    dtype, eps = precision
    given = inputs(rows=rows, shared=shared, dtype=dtype)
    blocks = create_block_mask(FLEX_MASKS[mask], None, None, rows, given[1].shape[2], device="cpu")
    function = partial(flex_attention, score_mod=SCORES[score], block_mask=blocks, enable_gqa=shared > 1)
    found, wanted, kernels = run(function, given, False)
    assert kernels == 1
    check(found, wanted, eps)


@pytest.mark.parametrize("precision", PRECISIONS, indirect=True, ids=str)
@pytest.mark.parametrize("deep, columns", [(16, 16), (80, 48), (320, 272)])
@pytest.mark.parametrize("score, mask", [("softcap", "causal"), ("by batch and head", "rows without keys")])
def test_gradients_of_flex_attention(score, mask, deep, columns, precision):
    dtype, eps = precision
    change, allow = Change(SCORES[score], ()), Change(FLEX_MASKS[mask], ())
    joint = Change(lambda s, b, h, i, j, g: [JOINT[score](s, b, h, i, j, g), None, None, None, None], ())

    def backward(q, k, v, out, logarithm, seed):
        return of_flex(q, k, v, out, logarithm, (seed, None), change, joint, allow, 0.25)[:3]

    q, k, v = inputs(rows=70, keys=90, deep=deep, columns=columns, dtype=dtype)
    q = q * (16 / deep) ** 0.5
    seed = torch.randn(*q.shape[:3], columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    out, logarithm, _ = flex(*wide, change, allow, 0.25)
    out.register_hook(lambda g: g.nan_to_num(0))
    wanted = torch.autograd.grad(out, wide, seed.double())
    given = q, k, v, out.detach().to(dtype), logarithm.detach().float(), seed
    traced = make_fx(backward)(*given)
    mark_products(traced.graph)
    reset_counters()
    made = bascule.compile_fx_inner(traced, given, options={"on_error": "raise", "target": "interpret"})
    check(made(list(given)), [x.nan_to_num(0) for x in wanted], eps)
    counters = bascule.counters()
    assert counters["kernels"]["launches"] <= 5 and not counters["aten"]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("precision", F32, indirect=True)
@pytest.mark.parametrize("deep, columns", [(16, 16), (80, 32), (300, 16)])
def test_lengths_that_change(deep, columns, precision, train):
    dtype, eps = precision
    made = compiled(attention, dynamic=None)
    reset_counters()
    for rows, keys in ((70, 50), (33, 90), (80, 17)):
        given = heads(dtype, rows, keys, deep, columns, (1, 2))
        for x in given:
            torch._dynamo.mark_dynamic(x.requires_grad_(train), 2)
        wide = [x.detach().double().requires_grad_(train) for x in given]
        found, wanted = made(*given), attention(*wide)
        if not train:
            check([found], [wanted], eps)
            continue
        seed = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
        of = torch.autograd.grad(found, given, seed), torch.autograd.grad(wanted, wide, seed.double())
        check([found.detach(), *of[0]], [wanted.detach(), *of[1]], eps)
    counters = bascule.counters()
    assert counters["graphs"]["compiled"] == 1 + train and not counters["aten"]


def test_f32_of_narrow_values_is_not_rounded_to_them():
    """Weights in f32 of values that are widened: no kernel rounds the weights."""
    given = [x * 0.5 for x in heads(torch.bfloat16, 40, 70, 16, 16)]

    def function(q, k, v):
        return attention(*(x.float() if x.dtype == torch.bfloat16 else x for x in (q, k, v)))

    check([compiled(function)(*given)], [function(*(x.double() for x in given))], PRECISIONS["ieee"])


@pytest.mark.parametrize("precision", F32, indirect=True)
def test_keys_in_parts(precision):
    """Few programs of many keys: a kernel of parts, and one that puts them together."""
    dtype, eps = precision
    found, wanted, kernels = run(attention, heads(dtype, 17, 9000, 64, 64, (1, 2)), False)
    assert kernels == 2
    check(found, wanted, eps)
