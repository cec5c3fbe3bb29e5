"""LLVM is given no bf16: it would ask for a library's function wherever a branch or a selection gives one."""

import pytest
import torch
from bascule.lowering.cpu.jit import compilation, modules
from torch.nn import functional as F

SIZES = [(4, 5), (1, 3), (2, 70)]
PROGRAMS = {
    "a diagonal is written": lambda x: torch.diagonal_scatter(x, x[:, 0][: x.diagonal(2).shape[0]] * 2, 2),
    "a slice is written": lambda x: torch.slice_scatter(x, x[:, :2] + 1, 1, 0, 2),
    "parts side by side": lambda x: torch.cat([x, x.new_full((1, x.shape[1]), 1.7)]),
    "a border": lambda x: F.pad(x, (1, 2), value=-0.3),
    "a triangle": lambda x: x.tril(-1),
    "chosen by data": lambda x: torch.where(x > 0, x, -0.0),
    "extremes and their places": lambda x: x.cummax(1).values + x.argmax(1, keepdim=True),
    "a row's weights": lambda x: x.softmax(1),
    "sums": lambda x: x.cumsum(0) + x.sum(1, keepdim=True),
    "places from data": lambda x: x.gather(1, (x > 0).long()),
}


@pytest.fixture
def lowered(monkeypatch):
    """The text of each module that is lowered."""
    found = []

    def lower(*given):
        made = modules.lower_kernels(*given)
        found.append(str(made[0]))
        return made

    monkeypatch.setattr(compilation, "lower_kernels", lower)
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_there_is_none_and_elements_are_eagers(lowered, program, size):
    function, x = PROGRAMS[program], torch.randn(size).bfloat16()
    got = torch.compile(function, backend="bascule", options={"on_error": "raise", "numerics": "eager"})(x)
    torch.testing.assert_close(got, function(x))
    assert lowered and not any("bf16" in text for text in lowered)
