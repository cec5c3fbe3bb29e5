"""Every test here starts without compiled code and with counters at zero."""

import pytest
import torch

from bascule.counting import reset_counters


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
