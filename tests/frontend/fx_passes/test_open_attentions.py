"""Attentions with a bias that PyTorch has its memory-efficient kernel for: kernels without scores in memory, or calls."""

import re

import pytest
import torch
from torch.nn import functional as F

OPERATOR = torch.ops.aten._scaled_dot_product_efficient_attention
INF = float("inf")


def attention(q, k, v, bias, **how):
    """Of heads side by side, as models have them: batch x rows x heads x columns."""
    bias = how.pop("change", lambda x: x)(bias)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    bias = bias.expand(*q.shape[:2], -1, -1)
    dropout = how.pop("dropout", 0.0)
    for _ in range(how.pop("times", 1)):
        q = out = OPERATOR(q, k, v, bias, torch.is_grad_enabled(), dropout, False, **how)[0]
    return out.transpose(1, 2).flatten(2)


def exact(q, k, v, bias, scale=None, change=lambda x: x):
    bias = change(bias)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    empty = (scores == -INF).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    return (weights @ v).transpose(1, 2).flatten(2)


def inputs(batch, heads, rows, keys, width, columns, of_bias, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(0)
    sizes = (
        (batch, rows, heads, width),
        (batch, keys, heads, width),
        (batch, keys, heads, columns),
        (*of_bias, rows, keys),
    )
    found = [torch.randn(*size, generator=generator) for size in sizes]
    found[3][..., 3, :], found[3][..., 4, 1:7] = -INF, -INF
    return [x.to(dtype) for x in found]


def compiled(tmp_path, **how):
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "dump": str(tmp_path), "cache": False}
    return torch.compile(lambda *x: attention(*x, **how), backend="bascule", options=options)


def calls(tmp_path):
    texts = [path.read_text() for path in tmp_path.glob("*/*-unroll-windows.mlir")]
    assert texts
    return sum("efficient_attention" in text for text in texts)


CASES = {
    "shared by a batch": ((3, 2, 40, 56, 32, 32, (1, 2)), {}),
    "one head": ((3, 1, 33, 47, 16, 24, (1, 1)), {}),
    "a scale": ((2, 3, 64, 16, 64, 40, (1, 3)), {"scale": 0.3}),
    "few rows": ((2, 2, 17, 70, 24, 16, (1, 2)), {}),
    "a bias that is computed": ((3, 2, 40, 56, 32, 32, (1, 2)), {"change": torch.tanh}),
    "a gradient of which more is computed": ((3, 2, 40, 56, 32, 32, (1, 1, 2)), {"change": lambda x: x.sum(0)}),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_training(case, dtype, tmp_path):
    sizes, how = CASES[case]
    own = [x.requires_grad_() for x in inputs(*sizes, dtype=dtype)]
    wide = [x.detach().double().requires_grad_() for x in own]
    out, wanted = compiled(tmp_path, **how)(*own), exact(*wide, **how)
    seed = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    out.backward(seed)
    wanted.backward(seed.double())
    assert calls(tmp_path) == 0
    for one, other in zip([out, *(x.grad for x in own)], [wanted, *(x.grad for x in wide)]):
        error = (one.double() - other).abs()
        assert error.max() <= 8 * torch.finfo(dtype).eps * other.abs().max()


@pytest.mark.parametrize("case", CASES)
def test_training_of_lengths_that_change(case, tmp_path):
    """Of a batch that changes too, compiled once."""
    (_, heads, _, _, *others), how = CASES[case]
    function = compiled(tmp_path, **how)
    for batch, rows, keys in ((3, 40, 56), (2, 70, 33), (5, 17, 70)):
        own = [x.requires_grad_() for x in inputs(batch, heads, rows, keys, *others)]
        wide = [x.detach().double().requires_grad_() for x in own]
        for x in own[:3]:
            torch._dynamo.mark_dynamic(x, (0, 1))
        torch._dynamo.mark_dynamic(own[3], (own[3].dim() - 2, own[3].dim() - 1))
        out, wanted = function(*own), exact(*wide, **how)
        seed = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(own[0])
        out.backward(seed)
        wanted.backward(seed.double())
        for one, other in zip([out, *(x.grad for x in own)], [wanted, *(x.grad for x in wide)]):
            error = (one.double() - other).abs()
            assert error.max() <= 8 * torch.finfo(torch.bfloat16).eps * other.abs().max()
    assert calls(tmp_path) == 0


@pytest.mark.parametrize("changes", [False, True], ids=["static", "changing"])
@pytest.mark.parametrize("rows, keys", [(40, 56), (33, 17)])
def test_a_dropout_is_drawn_again_in_the_backward(rows, keys, changes, tmp_path):
    """Values that are one-hot show what the forward dropped: no gradient passes there. A row that sees no key is 0."""
    q, k, _, bias = inputs(3, 2, rows, keys, 32, 32, (1, 2))
    one_hot = torch.zeros(3, keys, 2, 64).bfloat16()
    one_hot[..., :keys] = torch.eye(keys)[:, None]
    own = [x.requires_grad_() for x in (q, k, one_hot, bias)]
    for x, dims in zip(own, (1, 1, 1, (2, 3))):
        torch._dynamo.mark_dynamic(x, dims if changes else ())
    out = compiled(tmp_path, dropout=0.25)(*own)
    weights = out.detach().double().view(3, rows, 2, 64).transpose(1, 2)[..., :keys]
    assert 0.15 < (weights[:, :, 5:] == 0).double().mean() < 0.35 and not weights[:, :, 3].any()
    seed = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    out.backward(seed)
    assert calls(tmp_path) == 0
    for path in tmp_path.glob("*forward*/*-plan-memory.mlir"):
        assert not re.search(rf"memref<(3x2|6)x{rows}x{keys}x", path.read_text())

    def again(q, k, v, bias):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
        full = torch.where(
            weights == 0, 0.0, scores.masked_fill((scores == -INF).all(-1, keepdim=True), 0.0).softmax(-1) / 0.75
        )
        return (full @ v).transpose(1, 2).flatten(2)

    wide = [x.detach().double().requires_grad_() for x in own]
    wanted = again(*wide)
    wanted.backward(seed.double())
    for one, other in zip([out, *(x.grad for x in own)], [wanted, *(x.grad for x in wide)]):
        error = (one.double() - other).abs()
        assert error.max() <= 8 * torch.finfo(torch.bfloat16).eps * other.abs().max()


def test_a_mask_without_a_gradient(tmp_path):
    """Each of a batch may have its own."""
    own = inputs(3, 2, 40, 56, 32, 32, (3, 1))
    wide = [x.double() for x in own]
    for x in (*own[:3], *wide[:3]):
        x.requires_grad_()
    out, wanted = compiled(tmp_path)(*own), exact(*wide)
    out.sum().backward()
    wanted.sum().backward()
    assert calls(tmp_path) == 0
    for one, other in zip([out, *(x.grad for x in own[:3])], [wanted, *(x.grad for x in wide[:3])]):
        torch.testing.assert_close(one.double(), other, atol=0.03, rtol=0.03)


def test_inference(tmp_path):
    own = inputs(3, 2, 40, 56, 32, 32, (3, 2))
    with torch.no_grad():
        out = compiled(tmp_path)(*own)
    assert calls(tmp_path) == 0
    torch.testing.assert_close(out.double(), exact(*(x.double() for x in own)), atol=0.02, rtol=0.02)
    assert not out[:, 3].any()  # rows that see no key


LAYERS, BUCKETS = 3, 8


def relative_bias(table, rows, keys):
    """As a T5's: a number for each head and distance, far ones by their logarithm."""
    distance = (torch.arange(keys)[None] - torch.arange(rows)[:, None]).abs()
    bucket = torch.where(
        distance < 4, distance, (distance.float().clamp(min=1).log() * 2).long().clamp(max=BUCKETS - 1)
    )
    return F.embedding(bucket, table).permute(2, 0, 1)[None]


def stacked(attend, table, *operands, once):
    """Of layers that share the bias; `once`: it is expanded for all of them, so that their gradients are added before the sum over the batch."""
    layers = [operands[place : place + 3] for place in range(0, len(operands), 3)]
    bias = relative_bias(table, layers[0][0].shape[1], layers[0][1].shape[1]).to(operands[0].dtype)
    if once:
        bias = bias.expand(len(operands[0]), -1, -1, -1)
    return torch.stack([attend(*layer, bias) for layer in layers])


@pytest.mark.parametrize("once", [False, True])
def test_layers_share_a_computed_bias(once, tmp_path):
    """Their scores, and the gradients of these, are in no memory; the bias is, once."""
    batch, heads, rows, keys, width = 5, 2, 48, 40, 32
    generator = torch.Generator().manual_seed(0)
    sizes = [(batch, size, heads, width) for size in (rows, keys, keys)] * LAYERS
    own = [torch.randn(BUCKETS, heads, generator=generator)]
    own += [torch.randn(*size, generator=generator).bfloat16() for size in sizes]
    wide = [x.double().requires_grad_() for x in own]
    own = [x.requires_grad_() for x in own]
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret", "dump": str(tmp_path), "cache": False}
    function = torch.compile(lambda *x: stacked(attention, *x, once=once), backend="bascule", options=options)
    out, wanted = function(*own), stacked(exact, *wide, once=once)
    seed = torch.randn(out.shape, generator=generator).bfloat16()
    out.backward(seed)
    wanted.backward(seed.double())
    assert calls(tmp_path) == 0
    for path in tmp_path.glob("*/*-plan-memory.mlir"):
        text = path.read_text()
        assert not re.search(rf"memref<({batch}x{heads}|{batch * heads})x({rows}x{keys}|{keys}x{rows})x", text)
        assert f"{heads}x{rows}x{keys}xbf16" in text
    for one, other in zip([out, *(x.grad for x in own)], [wanted, *(x.grad for x in wide)]):
        error = (one.double() - other).abs()
        assert error.max() <= 8 * torch.finfo(torch.bfloat16).eps * other.abs().max()


LEFT = {
    "f32": ((3, 2, 40, 56, 32, 32, (1, 2), torch.float32), {}),
    "a batch of one": ((1, 2, 40, 56, 32, 32, (1, 2)), {}),
    "a bias of each of a batch": ((3, 2, 40, 56, 32, 32, (3, 2)), {}),
    "a bias that heads share": ((3, 2, 40, 56, 32, 32, (1, 1)), {}),
    "small heads": ((3, 2, 40, 56, 8, 8, (1, 2)), {}),
    "gradients added before they are summed": (
        (3, 2, 40, 56, 32, 32, (1, 2)),
        {"change": lambda x: x.expand(3, -1, -1, -1).sin(), "times": 2},
    ),
    "dropout": ((3, 2, 40, 56, 32, 32, (1, 2)), {"dropout": 0.1}),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_to_the_library(case):
    """In the FX graph, for the operator has no kernel for CPUs."""
    from bascule.frontend.fx_passes.open_attentions import open_attentions
    from torch._functorch.aot_autograd import aot_function
    from torch._subclasses import FakeTensorMode

    sizes, how = LEFT[case]
    found = []

    def look(joint, *args, **kwargs):
        found.append(open_attentions(joint.graph, devices=("cpu",)))
        joint.graph.lint()
        raise InterruptedError

    with FakeTensorMode():
        given = [torch.empty_like(x, device="cpu").requires_grad_() for x in inputs(*sizes)]
        with pytest.raises(InterruptedError):
            aot_function(lambda *x: attention(*x, **how), lambda gm, _: gm, partition_fn=look)(*given)
    assert found == [0]
