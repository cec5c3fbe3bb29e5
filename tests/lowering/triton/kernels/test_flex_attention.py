"""`flex_attention` as kernels without a tensor of scores, in the interpreter: results and gradients against eager in f64."""

import pytest
import torch
from bascule.frontend.graph_split.flex_attention import Change, attention, gradients
from bascule.lowering.triton.body import cheaper_forms, emitter
from bascule.lowering.triton.body.emitter import FORMS
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from bascule.pipelines import DEFAULT
from tests.lowering.triton.kernels.key_parts import in_parts_of
from tests.lowering.triton.kernels.test_attention_training import check

SLOPES = torch.tensor([0.05, 0.1, -0.02, 0.3])
DOCUMENTS = torch.arange(400) // 70 % 3
SCORES = {
    "as they are": lambda s, b, h, i, j: s,
    "softcap": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
    "by batch and head": lambda s, b, h, i, j: s * (1 + b) - h * 0.1,
    "captured slopes": lambda s, b, h, i, j: s + SLOPES.to(s.device)[h] * (j - i),
}
MASKS = {
    "none": lambda b, h, i, j: i >= 0,
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 20),
    "documents": lambda b, h, i, j: (i // 70 == j // 70) & (j <= i),
    "captured documents": lambda b, h, i, j: DOCUMENTS.to(i.device)[i] == DOCUMENTS.to(j.device)[j],
    "rows without keys": lambda b, h, i, j: (j <= i) & (i > 9) & (i != 33),
    "by head": lambda b, h, i, j: j + 10 * h <= i,
}
CASES = [
    *(("as they are", mask) for mask in MASKS),
    *((score, "causal") for score in SCORES if score != "as they are"),
    ("softcap", "rows without keys"),
]


def inputs(rows=100, keys=120, deep=16, columns=32, batch=2, heads=4, shared=1, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(rows + keys + deep + columns)
    few = heads // shared
    sizes = (batch, heads, rows, deep), (batch, few, keys, deep), (batch, few, keys, columns)
    return [torch.randn(size, generator=generator).clamp(-4, 4).to(dtype) for size in sizes]


def launches():
    return bascule.counters().get("kernels", {}).get("launches", 0)


def forward(score, mask, *given):
    blocks = create_block_mask(mask, None, None, given[0].shape[2], given[1].shape[2], device="cpu")

    def function(q, k, v):
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=q.shape[1] != k.shape[1])

    torch._dynamo.reset()
    before = launches()
    options = {"on_error": "raise", "target": "interpret"}
    found = torch.compile(function, backend="bascule", options=options, dynamic=False)(*given)
    return found, function(*(x.double() for x in given)), launches() - before


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("score, mask", CASES, ids=str)
def test_result(score, mask):
    found, wanted, kernels = forward(SCORES[score], MASKS[mask], *inputs())
    check([found], [wanted], torch.bfloat16)
    assert kernels <= (3 if "captured" in score + mask or mask == "documents" else 1)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_heads_that_share_keys(shared, dtype):
    found, wanted, kernels = forward(SCORES["softcap"], MASKS["causal"], *inputs(shared=shared, dtype=dtype))
    check([found], [wanted], dtype)
    assert kernels == 1


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_f32_and_one_query():
    """No kernel of tensor cores is for them."""
    for given in (inputs(dtype=torch.float32), inputs(rows=1)):
        found, wanted, _ = forward(SCORES["softcap"], MASKS["none"], *given)
        assert (found.double() - wanted).abs().max() <= 8 * torch.finfo(found.dtype).eps


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("mask", ["none", "by head", "late"])
@pytest.mark.parametrize("rows, shared", [(1, 4), (2, 4), (3, 1), (5, 2)])
@pytest.mark.parametrize("size", [None, 32, 30, 50])
def test_few_rows_over_keys_in_parts(size, rows, shared, mask, monkeypatch):
    """A kernel has a program for each part, and one or two put the parts together. Some parts have no key at all."""
    in_parts_of(monkeypatch, size)
    masks = MASKS | {"late": lambda b, h, i, j: (j > 70 + 20 * i) & (j < 110) & (i != 2)}
    found, wanted, kernels = forward(SCORES["captured slopes"], masks[mask], *inputs(rows=rows, shared=shared))
    check([found], [wanted], torch.bfloat16)
    assert kernels <= 5


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_distances_are_converted_by_rows_and_by_columns(monkeypatch):
    """Not element by element, where floats have all integers so far."""
    apart, plain = [], cheaper_forms.converted
    watched = [lambda *args: apart.append(plain(*args)) or apart[-1], *FORMS[1:]]
    assert FORMS[0] is plain
    monkeypatch.setattr(emitter, "FORMS", watched)
    for factor, taken in ((1, True), (1 << 20, False)):
        apart.clear()
        found, wanted, _ = forward(
            lambda s, b, h, i, j, n=factor: s - (j * n - i) / (100 * n), MASKS["causal"], *inputs()
        )
        check([found], [wanted], torch.bfloat16)
        assert any(x is not None for x in apart) == taken


PIPELINE = ",".join({"expand-products": "expand-products{contractions=true}"}.get(name, name) for name in DEFAULT)
# Of a score: its gradient, from the indices and that of the result.
JOINT = {
    "as they are": lambda s, b, h, i, j, g: g,
    "softcap": lambda s, b, h, i, j, g: g * (1 - torch.tanh(s / 5) ** 2),
    "by batch and head": lambda s, b, h, i, j, g: g * (1 + b),
    "captured slopes": lambda s, b, h, i, j, g: g,
}


@pytest.mark.parametrize(
    "score, mask, with_logarithm", [*((*case, False) for case in CASES), ("softcap", "rows without keys", True)]
)
def test_gradients(score, mask, with_logarithm):
    q, k, v = inputs()
    seed = torch.randn(*q.shape[:3], v.shape[3], generator=torch.Generator().manual_seed(1)).bfloat16()
    of_logarithm = torch.randn(q.shape[:3], generator=torch.Generator().manual_seed(2)) if with_logarithm else None
    change, allow = Change(SCORES[score], ()), Change(MASKS[mask], ())

    def backward(q, k, v, out, logarithm, *seeds):
        joint = Change(lambda s, b, h, i, j, g: [JOINT[score](s, b, h, i, j, g), None, None, None, None], ())
        seeds = (seeds[0], seeds[1] if with_logarithm else None)
        return gradients(q, k, v, out, logarithm, seeds, change, joint, allow, 0.25)[:3]

    wide = [x.double().requires_grad_() for x in (q, k, v)]
    result, logarithm, _ = attention(*wide, change, allow, 0.25)
    seeds = [seed] + ([of_logarithm] if with_logarithm else [])
    results = (result, logarithm) if with_logarithm else (result,)
    for x in results:
        x.register_hook(lambda g: g.nan_to_num(0))
    if with_logarithm:
        seeds[1] = seeds[1].masked_fill(logarithm == -torch.inf, 0)
    wanted = torch.autograd.grad(results, wide, [x.double() for x in seeds])
    given = (q, k, v, result.detach().bfloat16(), logarithm.detach().float(), *seeds)
    torch._dynamo.reset()
    before = launches()
    options = {"on_error": "raise", "target": "interpret", "pipeline": PIPELINE}
    compiled = torch.compile(make_fx(backward)(*given), backend="bascule", options=options, dynamic=False)
    found = compiled(*given)
    check(found, [x.nan_to_num(0) for x in wanted], torch.bfloat16)
    assert launches() - before <= 5 + ("captured" in score + mask)
