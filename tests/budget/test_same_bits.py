"""A step within a budget has the bits of one without: all but the order in which a sum is added up, where its kernel computes what it adds."""

import pytest
import torch
from bascule.dialect.mlir import ir

from tests.generators.training_steps import OneOrder, Step

STEPS = [
    Step(("linear", "gate", "convolution"), 2048, 64, 0.85, 1),
    Step(("gate", "linear", "gate"), 256, 48, 0.85, 2),
    Step(("norm", "dropout", "linear", "norm", "gate", "linear"), 256, 64, 0.95, 3),
]


class Noted(OneOrder):
    def __init__(self):
        self.sums, self.changed = 0, 0

    def schedule(self, scheduling):
        found = super().schedule(scheduling)
        self.sums += len(ir.ArrayAttr(found["loops"]))
        self.changed += found != scheduling.default
        return found


@pytest.mark.parametrize("step", STEPS, ids=lambda step: "-".join(step.layers))
def test_all_bits_are_the_same_where_sums_have_one_order(step):
    hooks = Noted()
    (want, without), (got, peak) = step.run(None, hooks=hooks), step.run(step.part, hooks=hooks)
    assert hooks.sums and hooks.changed
    assert peak < without and not step.by_chunks(step.part)  # which add up partial results
    assert all(map(torch.equal, got, want))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: "-".join(step.layers))
def test_sums_are_off_by_their_roundings_at_most(step):
    (want, _), (got, _) = step.run(None), step.run(step.part)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-6 * y.abs().max().item())


@pytest.mark.parametrize("rows", [100, 2048])
def test_an_order_is_kept_whether_a_sum_reads_or_computes(rows):
    """Addends that lie along different indices: a kernel that computes them walks them otherwise than one that reads what is saved."""
    torch.manual_seed(0)
    x, y = torch.randn(rows, 64), torch.randn(64, rows)
    options = {"on_error": "raise", "hooks": (hooks := Noted())}
    reads = torch.compile(lambda x, y: (z := x + y.t(), z.square().mean()), backend="bascule", options=options)
    computes = torch.compile(lambda x, y: (x + y.t()).square().mean(), backend="bascule", options=options)
    found, want = computes(x, y), (x.double() + y.double().t()).square().mean()
    assert torch.equal(found, reads(x, y)[1])
    assert hooks.changed >= 2
    torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=0)
