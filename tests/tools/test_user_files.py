"""Files of a user's: they may import what is beside them, and lit takes modules of passes for no tests."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bascule.dialect.user_classes import import_file

from bascule.errors import UserError
from bascule.tools.import_function import load_function

CONFIG = "from bascule import lit_config\n\nlit_config.set_up(config, __file__, 'mine')\n"
TEST = "// RUN: bascule-opt %s --load-pass=renames:Rename --rename | filecheck %s\n// CHECK: @renamed\nfunc.func private @f()\n"
PASS = '''from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass

from names import NAME


@dataclass(frozen=True)
class Rename(Pass):
    """Takes any stage; leaves functions with one name."""

    name: ClassVar[str] = "rename"

    def run(self, module: ir.Module) -> None:
        with module.context:
            for op in module.body.operations:
                op.attributes["sym_name"] = ir.StringAttr.get(NAME)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "names", raising=False)
    for name, text in {"lit.cfg": CONFIG, "a.mlir": TEST, "renames.py": PASS, "names.py": "NAME = 'renamed'\n"}.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{tmp_path}/"):
            del sys.modules[name]


def test_a_file_of_passes_imports_what_is_beside_it(folder):
    assert import_file(str(folder / "renames.py")).NAME == "renamed"


def test_a_file_of_functions_imports_what_is_beside_it(folder):
    (folder / "model.py").write_text("from names import NAME\n\n\ndef f(x):\n    return NAME\n")
    function, _ = load_function(f"{folder}/model.py:f")
    assert function(0) == "renamed"


TYPED = """from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Widths:
    inner: int = 4


def f(x):
    return x * Widths().inner
"""


@pytest.mark.parametrize("file", ["typed.py", "typed", "typed.txt", "a typed one.py", "json.py", "__main__.py"])
def test_a_file_of_functions_may_have_any_name(folder, file):
    """Classes find the module that they are in; a name that another module has leads to it as before."""
    (folder / file).write_text(TYPED)
    function, module = load_function(f"{folder / file}:f")
    assert function(2) == 8 and sys.modules[module.__name__] is module
    assert json.loads("1") == 1 and importlib.import_module("json") is json


def test_a_file_of_functions_is_the_module_that_others_import(folder):
    (folder / "registering.py").write_text("import asking\n\n\ndef f():\n    return asking.registering()\n")
    (folder / "asking.py").write_text("def registering():\n    import registering\n\n    return registering\n")
    function, module = load_function(f"{folder}/registering.py:f")
    assert function() is module


def test_a_file_that_fails_leaves_no_module(folder):
    (folder / "failing.py").write_text("raise RuntimeError('at once')\n")
    for _ in range(2):
        with pytest.raises(UserError, match="at once"):
            load_function(f"{folder}/failing.py:f")
    assert not [name for name in sys.modules if name.endswith("failing")]


def test_a_module_without_run_lines_is_no_test(folder):
    lit = Path(sys.executable).parent / "lit"
    ended = subprocess.run([lit, "-v", folder], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PASS: mine :: a.mlir (1 of 1)" in ended.stdout
