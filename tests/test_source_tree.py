"""Each check of `source_tree` finds what is planted."""

import ast

import pytest

from tests.source_tree import Tree, circles, crowded, importing_inits, long_functions, private_torch, room, undocumented

CLEAN = {
    "top/__init__.py": '"""A top."""',
    "top/run.py": "from top.low.parts import part",
    "low/__init__.py": '"""Below."""',
    "low/base.py": "import os",
    "low/parts/__init__.py": '"""Parts."""',
    "low/parts/part.py": "from ..base import thing",
    "low/parts/other.py": "def f():\n    from .part import x",
}


@pytest.fixture
def tree_with(tmp_path):
    """A function: the tree of `CLEAN` with other files, given as texts by path."""

    def made(others=None):
        for name, text in (CLEAN | (others or {})).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Tree(tmp_path, ("low", "top"), "top")

    return made


def rooms(tree):
    return list(circles(tree.edges(room)))


def modules(tree):
    return list(circles(tree.edges(lambda module: module.name)))


def test_a_clean_tree_is_clean(tree_with):
    tree = tree_with()
    assert not (rooms(tree) or modules(tree) or importing_inits(tree) or undocumented(tree))
    assert not crowded(tree, 2) and not long_functions(tree, 2)


@pytest.mark.parametrize(
    "text",
    [
        "from .parts import other",
        "import top.low.parts.other",
        "from top.low.parts.other import f",
        "def f():\n    from .parts.other import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .parts.other import f",
    ],
)
def test_a_circle_of_folders_names_its_imports(tree_with, text):
    (found,) = rooms(tree_with({"low/base.py": text}))
    line = text.count("\n") + 1
    assert "low/parts/part.py:1 imports top.low.base" in found
    assert f"low/base.py:{line} imports top.low.parts.other" in found


def test_a_circle_of_three_folders_is_one(tree_with):
    tree = tree_with({"low/base.py": "from .more.a import x", "low/more/a.py": "from ..parts.part import y"})
    (found,) = rooms(tree)
    assert found.count(" imports ") == 3


def test_a_folders_face_may_import_from_it(tree_with):
    tree = tree_with(
        {"low/base.py": "import os", "top/parts/a.py": "x = 1", "top/parts/__init__.py": "from .a import x"}
    )
    assert not rooms(tree)


def test_a_file_does_not_import_its_face(tree_with):
    tree = tree_with(
        {"top/face/a.py": "from . import x", "top/face/b.py": "x = 1", "top/face/__init__.py": "from .b import x"}
    )
    (found,) = rooms(tree)
    assert "top/face/a.py:1 imports top.face" in found
    assert not modules(tree)


def test_a_circle_of_modules_in_a_folder(tree_with):
    tree = tree_with({"low/parts/part.py": "from .other import f"})
    assert not rooms(tree)
    (found,) = modules(tree)
    assert "low/parts/part.py:1 imports top.low.parts.other" in found


def test_an_init_that_imports(tree_with):
    assert importing_inits(tree_with({"low/__init__.py": "import os"})) == set()
    assert importing_inits(tree_with({"low/parts/__init__.py": "import os"})) == {"low/parts/__init__.py"}


def test_folders_without_a_docstring(tree_with):
    assert undocumented(tree_with({"low/bare/x.py": "", "low/parts/__init__.py": "'' if 1 else ''"})) == [
        "low/bare",
        "low/parts",
    ]


def test_a_crowded_folder(tree_with):
    assert crowded(tree_with({"low/parts/third.py": ""}), 2) == {"low/parts": 3}


def test_a_long_function_inside_another(tree_with):
    text = "def short():\n    pass\n\nclass C:\n    async def f(self):\n        def long():\n            x = 1\n            return x\n"
    assert long_functions(tree_with({"low/base.py": text}), 3) == {"low/base.py f"}
    assert long_functions(tree_with({"low/base.py": text}), 2) == {"low/base.py f", "low/base.py long"}


PRIVATE = """
import torch._dynamo
import torch._inductor.config as config
from torch import _decomp
from torch._ops import OpOverload
from torch._C import DispatchKey
from torch.utils import _pytree as pytree
from torch.utils._pytree import tree_leaves
from torch.fx.experimental import _config
torch._functorch.config.save_config()
torch._C._get_obj_in_tls("context")
x: torch._ops.OpOverload
torch.cuda.memory._snapshot()
import_module("torch._inductor.cudagraph_trees")
"""

PUBLIC = """
import torch
from torch.fx import Graph
torch._check(x)
torch._foreach_add(x, x)
torch.ops.aten._softmax.default
x._typed_storage
torch.library.custom_op
"Checked by torch._dynamo. That is no name."
"""


def test_private_torch_is_seen_however_it_is_spelt():
    found = {name.split(":")[0] for name in private_torch(ast.parse(PRIVATE))}
    assert found == {str(line) for line in range(2, 15)}
    assert not list(private_torch(ast.parse(PUBLIC)))
