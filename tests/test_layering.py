"""Imports point one way: compat <- dialect <- frontend, lowering; runtime over compat; bascule on top. Inside a layer, from folder to
folder too. Private PyTorch is named in compat alone."""

import ast
from pathlib import Path

import pytest

from tests.source_tree import Tree, circles, crowded, importing_inits, long_functions, private_torch, room, undocumented

ROOT = Path(__file__).parents[1]
# layer -> the layers it may import
MAY_IMPORT = {
    "compat": set(),
    "dialect": {"compat"},
    "frontend": {"compat", "dialect"},
    "lowering": {"compat", "dialect"},
    "runtime": {"compat"},
    "bascule": {"compat", "dialect", "frontend", "lowering", "runtime"},
}
FOLDERS = ("bascule", "dialect", "frontend", "lowering", "runtime")
COMPAT = "bascule/compat/"
# package -> the files (or folder) that may import it
OWNERS = {"torch_mlir": ("dialect/mlir.py",), "triton": ("lowering/triton",)}
# files that stand above their folder
ABOVE = {
    "bascule/__main__.py",  # what `python -m bascule` runs
    "bascule/dumped_graphs.py",  # where old reproducers look for `bascule.entry.run_reproducer`
}

# `__init__` -> why it imports: a cache hit, which needs no MLIR, imports those of the folders on its way
FACES = {
    "dialect/interpreter/__init__.py": "public names of the reference interpreter",
    "dialect/ir/__init__.py": "`context` registers the ops, so that all of them are imported at once",
    "dialect/passes/__init__.py": "public names for passes of others: `Pass`, `add`",
    "lowering/cpu/__init__.py": "what a target calls: compilation of all kernels at once",
    "lowering/program/__init__.py": "what a target calls: a module as Python",
    "lowering/triton/__init__.py": "what a target calls, and the entry point of `to-triton`",
    "lowering/triton/interpreter/__init__.py": "what runs a Triton kernel without a GPU",
}
FILES_IN_A_FOLDER = 18
LINES_OF_A_FUNCTION = 60

TREE = Tree(ROOT, FOLDERS, "bascule")
FILES = list(TREE.modules.values())


@pytest.mark.parametrize("module", FILES, ids=lambda module: str(module.path))
def test_imports_point_one_way(module):
    where = str(module.path)
    layer = "compat" if where.startswith(COMPAT) else module.path.parts[0]
    for each in TREE.imports[module]:
        package, *inner = each.name.split(".")
        if package == "bascule" and inner and inner[0] in MAY_IMPORT and inner[0] != layer:
            assert inner[0] in MAY_IMPORT[layer], each
        if layer != "bascule" and package == "bascule" and inner:
            assert inner[0] in MAY_IMPORT, f"{each}, which is above it"
        if package in OWNERS:
            assert where.startswith(OWNERS[package]), each


@pytest.mark.parametrize("module", FILES, ids=lambda module: str(module.path))
def test_private_torch_is_named_in_compat(module):
    """Private modules and `torch._C`. Functions with an underscore that PyTorch documents, such as `torch._check`, are none."""
    if not str(module.path).startswith(COMPAT):
        assert not list(private_torch(TREE.parsed(module)))


@pytest.mark.parametrize("module", [m for m in FILES if str(m.path).startswith(COMPAT) and not m.is_init], ids=str)
def test_compat_says_which_versions_it_was_checked_on(module):
    assert "Checked on torch 2.11 to 2.14" in (ast.get_docstring(TREE.parsed(module)) or "")


def test_folders_make_no_circle():
    edges = TREE.edges(lambda module: str(module.path) if str(module.path) in ABOVE else room(module))
    found = list(circles(edges))
    assert not found, "\n".join(found)


def test_modules_make_no_circle():
    found = list(circles(TREE.edges(lambda module: module.name)))
    assert not found, "\n".join(found)


def test_a_folders_init_imports_nothing():
    assert importing_inits(TREE) == set(FACES)


def test_each_folder_says_what_it_holds():
    assert not undocumented(TREE)


def test_folders_are_small():
    assert not crowded(TREE, FILES_IN_A_FOLDER)


def test_functions_are_short():
    assert not long_functions(TREE, LINES_OF_A_FUNCTION)
