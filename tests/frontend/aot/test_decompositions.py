"""The decomposition table: what it leaves whole, and that what it takes apart computes the same.

With `functionalize_rng_ops` random numbers are a function of a seed and an offset that the graph is given. PyTorch has it for GPUs; here a pair
of numbers stands for the state of a GPU's generator.
"""

import pytest
import torch
import torch.nn.functional as F
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.conversion.registry import load_rules
from torch._decomp import decompositions_for_rng
from torch._functorch import config
from torch._prims_common import CUDARngStateHelper
from torch.utils.checkpoint import checkpoint

import bascule
from tests.frontend.against_eager import check, leaf
from tests.frontend.interpreted import compiled


def test_an_operator_with_a_rule_is_not_decomposed():
    rules = load_rules()
    assert {str(operator) for operator in decomposition_table() if str(operator) in rules} == {
        "aten._native_batch_norm_legit_functional.default",  # but for training on a CPU
        "aten._log_softmax.default",  # in parts, the partitioner saves a row's sum instead of the result
        "aten._softmax.default",
        "aten.native_layer_norm_backward.default",  # so it saves the normalized row for the row and its mean
    }


def test_what_a_library_does_stays_whole():
    aten = torch.ops.aten
    for operator in (
        aten.addmm.default,
        aten.baddbmm.default,
        aten.convolution.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
    ):
        assert operator not in decomposition_table()


LOSSES = {
    "layer_norm": lambda x, w: F.layer_norm(x, (6,), w[0], w[1]),
    "rms_norm": lambda x, w: F.rms_norm(x, (6,), w[0]),
    "group_norm": lambda x, w: F.group_norm(x, 2, w[0], w[1]),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w[0], w[1], training=True),
    "cross_entropy": lambda x, w: F.cross_entropy(x, torch.tensor([1, 0, 5, 2]), label_smoothing=0.1),
    "mse": lambda x, w: F.mse_loss(x, w),
    "bce": lambda x, w: F.binary_cross_entropy_with_logits(x, w.sigmoid()),
    "huber": lambda x, w: F.huber_loss(x, w) + F.smooth_l1_loss(x, w),
    "mv": lambda x, w: x @ w[0],
    "weight_norm of rows": lambda x, w: torch._weight_norm(x, w[:, :1], 0),
    "weight_norm of columns": lambda x, w: torch._weight_norm(x, w[:1], 1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name):
    torch.manual_seed(0)
    inputs = [torch.randn(4, 6, requires_grad=True) for _ in range(2)]
    mine = [x.detach().clone().requires_grad_() for x in inputs]
    precise = [x.detach().double().requires_grad_() for x in inputs]
    fast, backend = compiled(LOSSES[name])
    for function, arguments in ((fast, mine), (LOSSES[name], precise)):
        out = function(*arguments)
        (out * torch.arange(1, out.numel() + 1).reshape(out.shape).cos()).sum().backward()
    torch.testing.assert_close(fast(*mine).double(), LOSSES[name](*precise), rtol=1e-5, atol=1e-6)
    for x, y in zip(mine, precise):
        if y.grad is not None:
            torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-6)
    assert not backend.called()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("trained", [True, False])
def test_targets_of_a_multilabel_margin_end_at_the_first_negative(trained, reduction):
    torch.manual_seed(0)
    targets = torch.tensor([[0, 2, -1, 1, 1], [4, -1, 0, 0, -1], [3, 1, 0, 4, 2], [-1, 0, 1, 2, 3], [2, 2, 1, -1, 0]])
    rows = leaf(5, 5) if trained else torch.randn(5, 5)
    row = leaf(5) if trained else torch.randn(5)

    def loss(x, target):
        return F.multilabel_margin_loss(x, target, reduction=reduction)

    check(loss, [rows, targets])
    check(loss, [row, targets[0]])


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, fused=True, amsgrad=True, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, fused=True, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True, lr_decay=0.1),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    torch.manual_seed(0)
    first = [torch.randn(3, 4), torch.randn(5)]
    gradients = [[torch.randn_like(p) for p in first] for _ in range(3)]
    finals, called = [], set()
    for is_compiled in (False, True):
        params = [p.clone().requires_grad_() for p in first]
        optimizer = OPTIMIZERS[name](params)
        step = optimizer.step
        if is_compiled:
            step, backend = compiled(optimizer.step, fullgraph=False)
        for step_gradients in gradients:
            for p, g in zip(params, step_gradients):
                p.grad = g.clone()
            step()
        finals.append(params)
    called |= backend.called()
    torch.testing.assert_close(*finals)
    assert not called


@pytest.fixture
def state(monkeypatch):
    """Seed and offset."""
    found = [7, 0]

    def get(mode=None):
        if mode is None:
            return tuple(map(torch.tensor, found))
        with mode:
            return tuple(map(torch.tensor, found))

    def advance(offset):
        found[1] = offset.item()

    monkeypatch.setattr(CUDARngStateHelper, "get_torch_state_as_tuple", staticmethod(get))
    monkeypatch.setattr(CUDARngStateHelper, "set_new_offset", staticmethod(advance))
    monkeypatch.setattr(decompositions_for_rng, "throw_on_non_cuda", lambda device: None)
    torch._dynamo.reset()
    with config.patch(functionalize_rng_ops=True):
        yield found


def compiled_strictly(function, **kwargs):
    return torch.compile(function, backend="bascule", options={"on_error": "raise", "fallback": "error"}, **kwargs)


def dropped(x):
    return F.dropout(torch.sin(x), 0.5)


def recomputed(x):
    return checkpoint(lambda x: F.dropout(torch.sin(x), 0.5).exp(), x, use_reentrant=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [dropped, recomputed])
def test_the_backward_draws_what_the_forward_drew(state, function, dynamic):
    call, masks = compiled_strictly(function, dynamic=dynamic), []
    for number in range(3):
        x = torch.randn(100, 40, requires_grad=True)
        y = call(x)
        y.sum().backward()
        s, c = torch.sin(x.detach()), torch.cos(x.detach())
        kept = y.detach() != (1.0 if function is recomputed else 0.0)
        wanted = torch.where(kept, 2 * c, 0.0) * (torch.exp(2 * s) if function is recomputed else 1.0)
        torch.testing.assert_close(x.grad, wanted, rtol=1e-4, atol=1e-5)
        assert abs(kept.float().mean().item() - 0.5) < 0.05
        assert state[1] == 4 * (number + 1)
        masks.append(kept)
    assert not any(torch.equal(a, b) for n, a in enumerate(masks) for b in masks[:n])


@pytest.mark.parametrize("process", ["one", "a second, which loads it"])
def test_numbers_are_a_function_of_the_state(state, tmp_path, monkeypatch, process):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))

    def noise(x):
        return torch.rand_like(x), torch.rand(100, 40, dtype=torch.float64, device=x.device)

    call, x = compiled_strictly(noise), torch.zeros(100, 40)
    first = call(x)
    if process != "one":
        torch._dynamo.reset()
        hits = bascule.counters()["traces"].get("hit", 0)
        call = compiled_strictly(noise)
    second = call(x)
    if process != "one":
        assert bascule.counters()["traces"]["hit"] == hits + 1
    assert state == [7, 16]
    state[1] = 0
    torch.testing.assert_close(call(x), first, rtol=0, atol=0)
    state[:] = [8, 0]
    draws = [*first, *second, *call(x)]
    assert first[1].dtype == torch.float64
    for n, a in enumerate(draws):
        assert a.min() >= 0 and a.max() < 1 and abs(a.mean().item() - 0.5) < 0.03
        assert all((a - b).abs().mean() > 0.2 for b in draws[:n])
