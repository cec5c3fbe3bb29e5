"""Docstrings begin with a verb or with what the thing is."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("bascule", "frontend", "dialect", "lowering", "runtime", "benchmarks", "tests")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("folder", FOLDERS)
def test_none_begins_with_a_relative_clause(folder):
    found = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, DOCUMENTED) and (ast.get_docstring(node) or "").startswith("What "):
                found.append(f"{path}:{getattr(node, 'lineno', 1)}")
    assert not found
