"""The gradients of what scores of `flex_attention` capture, in the interpreter: against autograd in f64, with no score in memory."""

import pytest
import torch
from bascule.frontend.fx.fused_products import mark_products
from bascule.frontend.graph_split.captured_gradients import DECOMPOSITIONS, drop_whole_scatters
from bascule.frontend.graph_split.flex_attention import Change, gradients
from torch import Tensor
from torch._higher_order_ops.flex_attention import create_fw_bw_graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention

import bascule
from bascule.compat.graphs.dynamo import TransformGetItemToIndex
from bascule.reporting.counters import reset_counters
from tests.lowering.triton.kernels.test_attention import EPS

BATCH, HEADS, ROWS, KEYS = 2, 3, 70, 90
# The sizes of what is captured, the score, and how many kernels the whole backward is at most.
CAPTURED = {
    "slopes of heads": ((HEADS,), lambda s, b, h, i, j, c: s + c[h] * (j - i), 6),
    "scales of batches": ((BATCH,), lambda s, b, h, i, j, c: s * (1 + c[b]), 6),
    "of batches and heads": ((BATCH, HEADS), lambda s, b, h, i, j, c: 5 * torch.tanh(s * c[b, h] / 5), 6),
    "scales of rows": ((ROWS,), lambda s, b, h, i, j, c: s * c[i], 6),
    "keys of heads": ((HEADS, KEYS), lambda s, b, h, i, j, c: s + c[h, j], 6),
    "keys, from the end": ((KEYS,), lambda s, b, h, i, j, c: s + c[KEYS - 1 - j], 8),
    "a bias of heads": ((HEADS, ROWS, KEYS), lambda s, b, h, i, j, c: s + c[h, i, j], 4),
    "a bias of keys and rows": ((KEYS, ROWS), lambda s, b, h, i, j, c: s + c[j, i], 4),
    "a bias of batches": ((BATCH, ROWS, KEYS), lambda s, b, h, i, j, c: s + c[b, i, j], 4),
    "distances": ((ROWS + KEYS, HEADS), lambda s, b, h, i, j, c: s + c[j - i + ROWS, h], 7),
    "distances, clamped": ((17,), lambda s, b, h, i, j, c: s + c[(j - i).clamp(-8, 8) + 8], 6),
    "one of it": ((5,), lambda s, b, h, i, j, c: s * c[2 + 0 * h], 8),
    "groups of keys": ((11, HEADS), lambda s, b, h, i, j, c: s + c[j * 7 % 11, h], 8),
}
FORWARD = 6  # kernels of a forward, three of which make the tables of a mask that hides nothing
MASKS = {"causal": lambda b, h, i, j: j <= i + 10, "none": lambda b, h, i, j: i >= 0}


def backward(score, mask, captured, dtype, deep):
    """The graph of a backward as `flex_attention`'s is taken, and its inputs; and the gradients in f64."""
    generator = torch.Generator().manual_seed(1)
    sizes = [(BATCH, HEADS, size, deep) for size in (ROWS, KEYS, KEYS, ROWS)]
    q, k, v, seed = (torch.randn(size, generator=generator).to(dtype) for size in sizes)
    wide = [x.double().requires_grad_() for x in (q, k, v, captured)]
    indices = [torch.arange(n).view(-1, *[1] * (3 - dim)) for dim, n in enumerate((BATCH, HEADS, ROWS, KEYS))]
    scores = score(wide[0] @ wide[1].transpose(-1, -2) * deep**-0.5, *indices, wide[3])
    scores = torch.where(mask(*indices), scores, -torch.inf)
    out = torch.softmax(scores, -1) @ wide[2]
    wanted = torch.autograd.grad(out, wide, seed.double())
    logarithm = (scores.logsumexp(-1) / torch.tensor(2.0).double().log()).detach().float()
    number, places = torch.zeros((), requires_grad=True), [torch.zeros((), dtype=torch.int) for _ in range(4)]
    with TransformGetItemToIndex():
        forward, joint = create_fw_bw_graph(score, (number, *places), (captured.detach().requires_grad_(),))

    def function(q: Tensor, k: Tensor, v: Tensor, out: Tensor, logarithm: Tensor, seed: Tensor, captured: Tensor):
        changes = Change(forward, (captured,)), Change(joint, (captured,)), Change(mask, ())
        *of_inputs, of_captured = gradients(q, k, v, out, logarithm, (seed, None), *changes, deep**-0.5)
        return [*of_inputs, *of_captured]

    given = [q, k, v, out.detach().to(dtype), logarithm, seed, captured]
    gm = make_fx(function, DECOMPOSITIONS, tracing_mode="fake")(*given)
    drop_whole_scatters(gm.graph)
    mark_products(gm.graph)
    return gm, given, wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", CAPTURED)
def test_gradients(name, mask, dtype):
    sizes, score, most = CAPTURED[name]
    captured = torch.randn(sizes, generator=torch.Generator().manual_seed(2)) * (0.02 if "slopes" in name else 0.5)
    gm, given, wanted = backward(score, MASKS[mask], captured, dtype, 32 if dtype == torch.bfloat16 else 80)
    reset_counters()
    made = bascule.compile_fx_inner(gm, given, options={"on_error": "raise", "target": "interpret"})
    *found, of_captured = made(list(given))
    counters = bascule.counters()
    assert counters["kernels"]["launches"] <= most and not counters["aten"]
    eps = EPS.get(dtype, 2.0**-19)
    for one, other in zip([*found, of_captured], wanted, strict=True):
        error = (one.double() - other).abs().max()
        assert error <= 16 * eps * other.abs().max(), float(error / other.abs().max())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["slopes of heads", "keys of heads", "a bias of heads", "distances"])
def test_training(name, dtype, monkeypatch):
    """As a user writes it. PyTorch refuses gradients on a CPU by itself; the operators are those of a GPU."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    sizes, score, most = CAPTURED[name]
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(BATCH, HEADS, size, 32, generator=generator).to(dtype) for size in (ROWS, KEYS, KEYS, ROWS)]
    *given, seed = [*given[:3], (torch.randn(sizes, generator=generator) * 0.05).to(dtype), given[3]]

    def function(q, k, v, captured):
        return flex_attention(q, k, v, score_mod=lambda *args: score(*args, captured))

    def run(function, given, seed):
        given = [x.detach().requires_grad_() for x in given]
        found = function(*given)
        return [found.detach(), *torch.autograd.grad(found, given, seed)]

    torch._dynamo.reset()
    reset_counters()
    options = {"on_error": "raise", "target": "interpret"}
    found = run(torch.compile(function, backend="bascule", options=options, dynamic=False), given, seed)
    counters = bascule.counters()
    assert counters["kernels"]["launches"] <= most + FORWARD and all("sort" in call for call in counters["aten"])
    for one, other in zip(found, run(function, [x.double() for x in given], seed.double()), strict=True):
        error = (one.double() - other).abs().max()
        assert error <= 16 * EPS.get(dtype, 2.0**-19) * other.abs().max(), float(error / other.abs().max())
