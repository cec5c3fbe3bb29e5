"""Every test here starts without compiled code and with counters at zero."""

import pytest
import torch

from bascule.reporting.counters import reset_counters


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    reset_counters()
