"""Every test here needs a GPU, and says so where there is none. Each starts without compiled code and with counters at zero."""

import sys
from pathlib import Path

import pytest
import torch

from bascule.reporting.counters import reset_counters

sys.path.append(str(Path(__file__).parent.parent / "backend"))  # its cases


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs a GPU that PyTorch can use"))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    reset_counters()
