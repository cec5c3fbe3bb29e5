"""The decomposition table: what it leaves whole, and that what it takes apart computes the same."""

import pytest
import torch
import torch.nn.functional as F
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.conversion.registry import load_rules

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
