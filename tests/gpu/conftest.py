"""Every test here needs a GPU, and says so where there is none."""

from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs a GPU that PyTorch can use"))
