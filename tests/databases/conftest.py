"""What PyTorch writes into the working directory where its partitioner fails goes with the test."""

import pytest


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
