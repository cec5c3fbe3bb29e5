"""MLIR's bindings import a Python module for each dialect whose ops they meet. One that is not there is looked for at every op."""

import sys
from collections import Counter

import torch


class Finder:
    """Counts the modules that are looked for, and finds none."""

    def __init__(self):
        self.names = Counter()

    def find_spec(self, name, path=None, target=None):
        self.names[name] += 1


def test_no_dialect_is_looked_for_twice(monkeypatch):
    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    def function(x, y):
        return (x.relu() @ y).softmax(-1), x.cumsum(0), x.sort().values

    options = {"target": "interpret", "on_error": "raise"}
    x, y = torch.randn(16, 24), torch.randn(24, 8)
    torch.testing.assert_close(torch.compile(function, backend="bascule", options=options)(x, y), function(x, y))
    twice = {
        name for name, count in finder.names.items() if count > 1 and {"dialects", "bindings"} & set(name.split("."))
    }
    assert not twice
