"""Floats as integers, compiled for a CPU, where the integer has no such number: as eager converts them, known to LLVM or not."""

import math

import pytest
import torch

INTEGERS = (
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.int64,
    torch.uint64,
)  # of uint32 eager gives two answers
NUMBERS = [math.nan, math.inf, -math.inf, 1e30, -1e30, 3e9, -3e9, 1e19, 2.0**63, -(2.0**63), 65536.0, 300.0, -5.75, 2.5]


def compiled(function):
    return torch.compile(function, backend="bascule", fullgraph=True, options={"on_error": "raise"})


def same(got, wanted):
    for ours, eager in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_of_memory(source):
    def converted(x):
        return [x.to(dtype) for dtype in INTEGERS]

    x = torch.tensor(NUMBERS * 3, dtype=torch.float64).to(source)
    same(compiled(converted)(x), converted(x))


@pytest.mark.parametrize("number", NUMBERS)
def test_of_a_number_that_the_graph_has(number):
    """A store of anything computed from such an integer is seen too."""

    def converted(x):
        made = torch.full((3,), number)
        return [*(made.to(dtype) for dtype in INTEGERS), torch.where(made.int() < 0, x, 2 * x)]

    x = torch.tensor([1.0, 2.0, 3.0])
    same(compiled(converted)(x), converted(x))


def test_of_statistics_of_too_few_elements():
    def converted(x):
        return x[:1].std().int(), x[:0].mean().long(), x[:1].var(0).to(torch.int16)

    x = torch.tensor([1.0, 2.0, 3.0])
    same(compiled(converted)(x), converted(x))
