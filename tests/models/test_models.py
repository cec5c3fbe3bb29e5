"""Real architectures, small and with random weights: loss and every gradient of a training step against eager.

`on_error="raise"`: a graph that falls back is a failure here.
"""

from functools import cache

import pytest
import torch

import bascule
from bascule.reporting.counters import reset_counters
from benchmarks.model_cases import CASES, RWKV, TESTED, build, training_step

MODELS = {case.name: case for case in (*CASES, RWKV)}

# Sums are taken in another order than eager takes them. How far a gradient's elements may be off: relative to its largest
# element, and (for gradients that are zero but for rounding, as of a key's bias) to the largest of all gradients.
TOLERANCE, TOLERANCE_OF_ALL = 2e-5, 1e-6


def step(model, compiled, inputs):
    """Loss and gradients of one step."""
    loss = training_step(compiled, model, inputs)
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@cache
def trained(case):
    """Loss, gradients and buffers of a step in eager and of a compiled one, and the calls of ATen of its graphs: compiled once for all tests."""
    torch._dynamo.reset()
    reset_counters()
    model, inputs = build(MODELS[case], TESTED)
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    expected = step(model, model, inputs)
    after = {name: b.clone() for name, b in model.named_buffers()}
    for name, b in model.named_buffers():  # running statistics of a batch norm
        b.copy_(buffers[name])
    compiled = torch.compile(model, backend="bascule", options={"on_error": "raise"})
    got = step(model, compiled, inputs)
    return (*expected, after), (*got, dict(model.named_buffers())), bascule.counters()["aten"]


@pytest.mark.parametrize("case", MODELS)
def test_training_step(case):
    (expected_loss, expected, after), (loss, gradients, buffers), _ = trained(case)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == expected.keys()
    floor = TOLERANCE_OF_ALL * max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in gradients.items():
        scale = expected[name].abs().max().item()
        error = (gradient - expected[name]).abs().max().item()
        assert error <= TOLERANCE * scale + floor, f"{name}: off by {error:.2g}, largest element {scale:.2g}"
    for name, b in buffers.items():
        torch.testing.assert_close(b, after[name], rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


# What may go to ATen in these models.
ALLOWED = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "_linear_pointwise",  # oneDNN's product
    "convolution",
    "attention",
    "sort",
    "topk",
    "grouped_mm",
    "max_pool2d",
    "_foreach",
)


@pytest.mark.parametrize("case", MODELS)
def test_only_products_convolutions_attention_and_sorts_go_to_aten(case):
    *_, aten = trained(case)
    operators = {call.partition(": ")[0] for call in aten}
    assert any("mm" in name or "linear" in name for name in operators)
    foreign = {name for name in operators if not any(part in name for part in ALLOWED)}
    assert not foreign, aten
