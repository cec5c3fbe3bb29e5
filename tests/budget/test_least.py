"""A budget of all that a step holds without one is possible, and so is the least that an error names, however it is asked for."""

import re

import pytest
import torch

from bascule.budget import partition
from bascule.errors import UserError
from tests.generators.training_steps import BESIDE, Step

# Passes with a budget leave more at the peak of some of these than those without.
WHOLE = [
    Step(("attention", "gate"), 2048, 32, 1.0, 51657310),
    Step(("convolution", "convolution", "gate"), 256, 64, 1.0, 375299061),
    Step(("convolution", "linear", "rows", "norm"), 64, 64, 1.0, 1063927552),
    Step(("convolution", "norm"), 64, 64, 1.0, 5),
    Step(("linear", "norm"), 64, 64, 1.0, 5),
]
# What predictions tell is far from what plans tell: of a step that computes all of it in few kernels.
SMALL = [Step(("norm",), 256, 64, 0.8, 896737107), Step(("norm",), 64, 64, 0.5, 1), Step(("twice",), 64, 32, 0.3, 2)]


@pytest.mark.parametrize("step", WHOLE, ids=lambda step: "-".join(step.layers))
def test_the_peak_without_a_budget_is_a_budget_that_is_kept(step, monkeypatch):
    told, within = [], partition.Search.within
    monkeypatch.setattr(
        partition.Search, "within", lambda search, limit: told.append(within(search, limit)) or told[-1]
    )
    (want, _), (got, peak) = step.run(None), step.run(1.0)
    (outcome,) = told
    assert outcome.peak.bytes <= outcome.budget == outcome.unlimited.bytes
    assert peak <= outcome.budget + BESIDE
    assert all(map(torch.equal, got, want))


@pytest.mark.parametrize("step", SMALL, ids=lambda step: "-".join(step.layers))
def test_a_part_and_bytes_have_one_least(step):
    least = [_least(step, budget) for budget in (step.part, 4096, "4 KiB")]
    assert len({*least}) == 1
    assert step.run(least[0])[1] <= least[0] + BESIDE
    assert _least(step, least[0] - 1) == least[0]


def _least(step: Step, budget: int | float | str) -> int:
    with pytest.raises(UserError, match="cannot be kept") as raised:
        step.run(budget)
    return int(re.search(r"\((\d+) bytes\) at least", str(raised.value))[1])
