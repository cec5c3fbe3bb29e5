"""Imports point one way: dialect <- frontend, lowering; runtime alone; bascule on top."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# layer -> the layers it may import
MAY_IMPORT = {
    "dialect": set(),
    "frontend": {"dialect"},
    "lowering": {"dialect"},
    "runtime": set(),
    "bascule": {"dialect", "frontend", "lowering", "runtime"},
}
# package -> the files (or folder) that may import it
OWNERS = {"torch_mlir": ("dialect/mlir.py",), "triton": ("lowering/triton",)}

FILES = sorted(path for layer in MAY_IMPORT for path in (ROOT / layer).rglob("*.py"))


def imported(path):
    """The absolute names of the modules that a file imports, anywhere in it."""
    package = ["bascule", *path.relative_to(ROOT).parts[:-1]]
    if package[1] == "bascule":
        package = package[1:]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    layer = path.relative_to(ROOT).parts[0]
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "bascule" and len(parts) > 1 and parts[1] in MAY_IMPORT and parts[1] != layer:
            assert parts[1] in MAY_IMPORT[layer], f"{layer} imports {name}"
        if layer != "bascule" and parts[0] == "bascule" and len(parts) > 1:
            assert parts[1] in MAY_IMPORT, f"{layer} imports {name}, which is above it"
        if parts[0] in OWNERS:
            where = str(path.relative_to(ROOT))
            assert where.startswith(OWNERS[parts[0]]), f"{where} imports {name}"
