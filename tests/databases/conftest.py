"""A working directory a test: PyTorch's partitioner writes files there where it fails."""

import pytest


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
