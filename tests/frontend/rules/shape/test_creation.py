"""Numbers at equal distances: each from the end that eager computes it from."""

import math

import pytest
import torch

ENDS = [(math.inf, -3.0), (2.0, math.inf), (-math.inf, 1.0), (0.1, 0.7), (math.nan, 1.0), (-7, 12)]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("operator", [torch.linspace, torch.logspace])
def test_ends_that_are_infinite(operator, ends, steps):
    compiled = torch.compile(lambda x: operator(*ends, steps) + x, backend="bascule", options={"on_error": "raise"})
    zero = torch.zeros(())
    torch.testing.assert_close(compiled(zero), operator(*ends, steps), equal_nan=True)


def test_the_middle_is_computed_from_the_end_as_in_eager():
    """In f64: from the start it is another number."""
    ends, steps = (0.1, 0.7), 27
    step = (ends[1] - ends[0]) / (steps - 1)
    assert ends[0] + 13 * step != ends[1] - 13 * step
    compiled = torch.compile(lambda x: torch.linspace(*ends, steps, dtype=x.dtype), backend="bascule")
    assert compiled(torch.zeros((), dtype=torch.float64))[13].item() == ends[1] - 13 * step
