"""Compiled code refuses what PyTorch's operator database says that operators refuse: with eager's type of exception, and arguments as eager
leaves them.

All of it is run, in parts: one a test.
"""

import pytest
import torch

from tests.operators.error_inputs import difference, refused
from tests.operators.opinfo import DEVICE, operators

PARTS = 8


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's kernels end the process where eager's do")
@pytest.mark.parametrize("part", range(PARTS))
def test_what_eager_refuses_is_refused(part):
    calls = [*refused([*operators()][part::PARTS])]
    found = [text for call in calls if (text := difference(call)) is not None]
    torch._dynamo.reset()
    assert len(calls) > 40
    assert not found, "\n".join(found)
