"""Attention by hand, fused into one kernel by its structure, in the interpreter: against eager in f64."""

import pytest
import torch
from bascule.lowering.triton.kernels import loops
from bascule.lowering.triton.kernels.walked_keys import walked_keys

import bascule
from bascule.pipelines import DEFAULT

INSTEAD = {"expand-products": "expand-products{contractions=true}"}
PIPELINE = ",".join(INSTEAD.get(name, name) for name in DEFAULT if name != "fuse-products")
EPS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def attention(q, k, v, change=lambda scores: scores):
    return torch.softmax(change(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5), -1) @ v


def run(function, *inputs):
    """The results in the dtype of the inputs and in f64, and how many kernels ran."""
    torch._dynamo.reset()
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    target = "auto" if inputs[0].is_cuda else "interpret"
    options = {"on_error": "raise", "target": target, "pipeline": PIPELINE}
    found = torch.compile(function, backend="bascule", options=options, dynamic=False)(*inputs)
    wide = function(*(x.double() if x.is_floating_point() else x for x in inputs))
    return found, wide, bascule.counters()["kernels"]["launches"] - before


def check(found, wanted, dtype):
    """Four roundings to the dtype: of scores twice, of weights, of the result, of values that are 4 at most."""
    assert found.dtype == dtype and torch.equal(found.isnan(), wanted.isnan())
    error = (found.double() - wanted).abs().nan_to_num(0)
    assert (error <= 4 * EPS[dtype] * (wanted.abs().nan_to_num(0) + 1)).all(), float(error.max())


def heads(dtype, rows, keys, deep, columns, batch=(2, 3)):
    generator = torch.Generator().manual_seed(rows + keys + deep + columns)
    sizes = (*batch, rows, deep), (*batch, keys, deep), (*batch, keys, columns)
    return [torch.randn(size, generator=generator).clamp(-4, 4).to(dtype) for size in sizes]


SIZES = [
    (16, 17, 16, 16),
    (17, 33, 24, 40),
    (40, 64, 32, 32),
    (128, 128, 64, 64),
    (130, 300, 20, 72),
    (20, 1000, 64, 16),
]


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes, dtype):
    found, wanted, kernels = run(attention, *heads(dtype, *sizes))
    assert kernels == 1
    check(found, wanted, dtype)


@pytest.mark.parametrize("batch", [(), (5,), (1, 4), (2, 1, 3)], ids=str)
def test_batches(batch):
    found, wanted, kernels = run(attention, *heads(torch.float16, 30, 50, 16, 24, batch))
    assert kernels == 1
    check(found, wanted, torch.float16)


def causal(scores):
    rows, keys = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
    return scores.masked_fill(keys[None] > rows[:, None], -torch.inf)


CHANGES = {
    "causal": causal,
    "softcap": lambda scores: torch.tanh(scores / 5) * 5,
    "ALiBi": lambda scores: scores - torch.arange(scores.shape[-1]) * 0.01,
    "window": lambda scores: scores.masked_fill((torch.arange(70)[:, None] - torch.arange(90)).abs() > 9, -torch.inf),
    "f32": lambda scores: scores.float() if scores.dtype != torch.float64 else scores,
}


@pytest.mark.parametrize("name", CHANGES)
def test_scores_that_are_changed(name):
    dtype = torch.bfloat16

    def function(q, k, v):
        scores = CHANGES[name](q @ k.transpose(-1, -2) * 0.25)
        return torch.softmax(scores, -1).to(q.dtype) @ v

    found, wanted, kernels = run(function, *heads(dtype, 70, 90, 16, 32))
    assert kernels == 1
    check(found, wanted, dtype)


def where(shown, other=-torch.inf):
    """Scores where `shown` of row and key holds."""

    def masked(scores):
        rows, keys = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
        return torch.where(shown(rows[:, None], keys), scores, other)

    return masked


MASKS = {
    "200 - row > key": where(lambda r, k: 200 - r > k),
    "row + key < 200": where(lambda r, k: r + k < 200),
    "key < 200": where(lambda r, k: k < 200),
    "key >= row": where(lambda r, k: k >= r),
    "causal, of a window": where(lambda r, k: (k <= r) & (r - k < 40)),
    "window": where(lambda r, k: (r - k).abs() < 20),
    "prefix or causal": where(lambda r, k: (k < 70) | (k <= r)),
    "documents": where(lambda r, k: (r // 30 == k // 30) & (k <= r)),
    "tril": lambda s: s.masked_fill(~torch.ones_like(s, dtype=torch.bool).tril(-3), -torch.inf),
    "added": lambda s: s + torch.full_like(s, -torch.inf).triu(1),
    "two": lambda s: where(lambda r, k: k < 260)(where(lambda r, k: k > r - 90)(s)),
}


@pytest.mark.parametrize("name", MASKS)
def test_keys_that_no_row_of_a_tile_sees_are_skipped(name, monkeypatch):
    """Rows that see no key are NaN, as in eager."""
    inputs, skipped = heads(torch.float16, 200, 290, 16, 32), []
    monkeypatch.setattr(loops, "walked_keys", lambda *args: skipped.append(walked_keys(*args)) or skipped[-1])
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, MASKS[name]), *inputs)
    assert kernels == 1 and skipped
    check(found, wanted, torch.float16)


ALIKE = {
    "a finite number": where(lambda r, k: 100 - r > k, -6e4),
    "either side": where(lambda r, k: r != k),
    "rows": where(lambda r, k: r < 100),
}


@pytest.mark.parametrize("name", ALIKE)
def test_masks_that_hide_no_keys_of_a_tile(name):
    """Rows of which a finite number masks all keys are means of the values."""
    inputs = heads(torch.float16, 150, 170, 16, 32)
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, ALIKE[name]), *inputs)
    assert kernels == 1
    check(found, wanted, torch.float16)


@pytest.mark.parametrize("number", [-1e10, torch.finfo(torch.bfloat16).min], ids=str)
def test_rows_that_a_large_number_hides_are_means(number):
    """Of numbers without digits, or beyond f32's over log2(e). A mask in memory, as of padded tokens, and one by places."""

    def function(q, k, v, hidden):
        scores = q @ k.transpose(-1, -2) * 0.25
        return torch.softmax(where(lambda r, k: k <= r + 3, number)(scores).masked_fill(hidden, number), -1) @ v

    hidden = torch.zeros(70, 90, dtype=torch.bool)
    hidden[5], hidden[40:45], hidden[:, 3] = True, True, True
    found, wanted, kernels = run(function, *heads(torch.bfloat16, 70, 90, 16, 32), hidden)
    assert kernels == 1 and wanted.isfinite().all()
    check(found, wanted, torch.bfloat16)


def test_masks_and_biases_in_memory():
    """Rows without a key are NaN, as in eager; rows whose first keys have no weight are not."""
    mask = torch.rand(2, 1, 40, 150, generator=torch.Generator().manual_seed(0)) > 0.3
    mask[0, 0, 5], mask[1, 0, 7, :140] = True, True
    bias = torch.randn(3, 40, 150, generator=torch.Generator().manual_seed(1)).half()

    def function(q, k, v, mask, bias):
        return attention(q, k, v, lambda scores: (scores + bias).masked_fill(mask, -torch.inf))

    found, wanted, kernels = run(function, *heads(torch.float16, 40, 150, 32, 16), mask, bias)
    assert kernels == 1 and wanted[0, :, 5].isnan().all()
    check(found, wanted, torch.float16)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_scores_that_are_no_numbers(value):
    q, k, v = heads(torch.float16, 20, 80, 16, 16, ())
    mask = torch.zeros(20, 80).half()
    mask[3, 70] = mask[4, 0] = value
    found, wanted, kernels = run(lambda q, k, v, mask: attention(q, k, v, lambda s: s + mask), q, k, v, mask)
    assert kernels == 1
    check(found, wanted, torch.float16)


def test_what_reads_the_result_goes_along():
    def function(q, k, v, residual):
        return torch.relu(attention(q, k, v)) + residual

    inputs = heads(torch.float16, 40, 50, 16, 24)
    found, wanted, kernels = run(function, *inputs, torch.ones(2, 3, 40, 24).half())
    assert kernels == 1
    check(found, wanted, torch.float16)


NOT = {
    "weights are a result": lambda q, k, v: (lambda w: (w @ v, w))(torch.softmax(q @ k.transpose(-1, -2), -1)),
    "another maximum": lambda q, k, v: _weighed(q @ k.transpose(-1, -2), (q @ k.transpose(-1, -2) * 0.5).amax(-1), v),
    "no sum": lambda q, k, v: torch.exp((q @ k.transpose(-1, -2)) * 0.1) @ v,
    "few keys": lambda q, k, v: attention(q, k[:, :, :16], v[:, :, :16]),
    "deep": lambda q, k, v: attention(q.repeat(1, 1, 1, 40), k.repeat(1, 1, 1, 40), v),
}


def _weighed(scores, largest, v):
    powers = torch.exp(scores - largest[..., None])
    return (powers / powers.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize("name", NOT)
def test_what_is_no_attention_is_several_kernels(name):
    found, wanted, kernels = run(NOT[name], *(x * 0.5 for x in heads(torch.float16, 20, 40, 16, 16)))
    assert kernels > 1
    for one, other in zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]:
        torch.testing.assert_close(one.double(), other, rtol=2e-2, atol=2e-2)
