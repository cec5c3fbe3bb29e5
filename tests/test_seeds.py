"""The tests draw the same random numbers in every run: when they are imported, when they run, and by hypothesis."""

import ast
import os
import random
from pathlib import Path

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).parents[1]

AT_IMPORT = torch.rand(3), random.random()


def drawn() -> tuple[torch.Tensor, float]:
    torch.manual_seed(0)
    random.seed(0)
    return torch.rand(3), random.random()


def test_modules_are_seeded_before_they_are_imported():
    tensor, number = drawn()
    assert torch.equal(AT_IMPORT[0], tensor) and AT_IMPORT[1] == number


def test_each_test_is_seeded():
    found = torch.rand(3), random.random()
    tensor, number = drawn()
    assert torch.equal(found[0], tensor) and found[1] == number


@pytest.mark.skipif("BASCULE_HYPOTHESIS" in os.environ, reason="another profile is asked for")
def test_hypothesis_draws_the_same_examples():
    assert settings.default.derandomize


def test_nothing_has_random_numbers_of_its_own():
    """NumPy's generators, and `derandomize` beside the profile, which fresh seeds could not undo."""
    for path in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        assert not [name for name in names if name.startswith(("np.random", "numpy.random"))], path
        keywords = [node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)]
        assert "derandomize" not in keywords or path.name == "conftest.py", path
