"""Every test here starts without compiled code and with counters at zero."""

import pytest
import torch

from bascule.reporting.counters import reset_counters


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    reset_counters()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A disk cache that is empty, and on."""
    path = tmp_path / "cache"
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def on_cpu(monkeypatch):
    """CPU tensors pass for ones on cuda:0; stand-ins for PyTorch's trees of CUDA graphs, which are returned, record them."""
    from stand_in_trees import as_if_on_a_gpu

    return as_if_on_a_gpu(monkeypatch)
