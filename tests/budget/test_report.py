"""`bascule.memory` tells what holds the peak of a training step, the least budget, and what less memory costs."""

from pathlib import Path

import pytest
import torch

import bascule
from bascule.errors import UserError

HERE = Path(__file__).name


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(32, 128), torch.nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Model(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x).square().mean()


@pytest.fixture(scope="module")
def step():
    report = bascule.memory(Model(*(Layer() for _ in range(3))), torch.randn(1024, 32))
    assert not report.untold
    (step,) = report.steps
    return step


def test_categories_sum_up_to_the_peak(step):
    assert sum(step.categories.values()) == sum(holder.bytes for holder in step.holders) == step.peak
    assert step.categories["parameters"] == 3 * 4 * (2 * 32 * 128 + 32 + 128)
    assert step.categories["inputs"] == 1024 * 32 * 4
    assert step.categories["saved"] > step.peak / 2


def test_saved_tensors_have_lines(step):
    lines = {holder.line for holder in step.holders if holder.category == "saved"}
    assert any(line is not None and HERE in line for line in lines)


def test_less_memory_takes_more_time(step):
    assert step.least == step.curve[0].bytes < step.curve[-1].bytes <= step.peak
    for before, after in zip(step.curve, step.curve[1:]):
        assert before.bytes < after.bytes and before.time >= after.time
    assert step.curve[-1].time == 1.0


def test_text(step):
    text = str(step)
    assert "a peak of" in text and "the least budget: " in text and f"({step.least} bytes)" in text


def test_without_gradients_there_is_no_step():
    assert "no graph was captured that needs gradients" in str(bascule.memory(torch.sin, torch.randn(4)))


def test_what_is_no_function():
    with pytest.raises(UserError, match="memory: takes a function or a module, got 3"):
        bascule.memory(3)
