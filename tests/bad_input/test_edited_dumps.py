"""Dumps that were edited into what cannot run: the option `replay` gives an error that names the file, and leaves the dump as it is."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bascule.errors import UserError

from .modules import nested

STRICT = {"on_error": "raise", "fallback": "error", "cache": False}


def f(x):
    return torch.mm(x.exp(), x.sin().t()).tanh()


def compiled(x, **options):
    torch._dynamo.reset()
    return torch.compile(f, backend="bascule", options={**STRICT, **options})(x)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory) -> tuple[torch.Tensor, Path]:
    x, folder = torch.randn(8, 16), tmp_path_factory.mktemp("dump")
    compiled(x, dump=str(folder))
    return x, folder


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        made, count = re.subn(pattern, by, text, count=1)
        assert count, f"nothing is {pattern}"
        return made

    return edit


KERNEL = r"(?s)(  func\.func private @exp_0\(.*?\n  } loc\(.*?\)\n)"
# What is wrong: the file, its edit, and what the error tells beside its path.
EDITS: dict[str, tuple[str, Callable[[str], str | bytes], str]] = {
    "half a file": ("*-torch-to-bascule.mlir", lambda text: text[: len(text) // 2], "not valid"),
    "an empty file": ("*-form-kernels.mlir", lambda text: "", "no graph"),
    "no text": ("*-form-kernels.mlir", lambda text: b"\xff\xfe\x00", "can't decode"),
    "another type": (
        "*-torch-to-bascule.mlir",
        replaced(r"(math\.exp .*) : f32", r"\1 : f64"),
        "expects different type",
    ),
    "an operation of nobody's": ("*-torch-to-bascule.mlir", replaced(r"math\.exp", "math.nothing"), "math.nothing"),
    "an operator of nobody's": (
        "*-form-kernels.mlir",
        replaced(r'"aten\.mm\.out"', '"aten.nothing.out"'),
        "aten.nothing",
    ),
    "a kernel twice": ("*-schedule-kernels.mlir", replaced(KERNEL, r"\1\1"), "redefinition of symbol"),
    "a call of nobody's": ("*-schedule-kernels.mlir", replaced(r"call @\w+", "call @nothing"), "nothing"),
    "a schedule of no kind": (
        "*-schedule-kernels.mlir",
        replaced(r"#bascule\.schedule<\{", "#bascule.schedule<{nothing = 1 : i64, "),
        "nothing",
    ),
    "another schedule's size": ("*-schedule-kernels.mlir", replaced(r"lanes = \d+ : i64", "lanes = -3 : i64"), "lanes"),
    "deep regions": ("*-torch-to-bascule.mlir", lambda text: nested(10_000), "nested too deeply"),
    "an earlier stage": ("*-form-kernels.mlir", lambda text: (None, "00-import.mlir"), "relies on"),
    "a later stage": ("*-torch-to-bascule.mlir", lambda text: (None, "*-plan-memory.mlir"), "relies on"),
    "a smaller arena": ("*-plan-memory.mlir", lambda text: text.replace("memref<1024xi8>", "memref<8xi8>"), "arena"),
    "stages cut": ("stages.json", lambda text: text[: len(text) // 2], "cannot be read"),
    "stages of another version": ("stages.json", replaced(r'"format": 1', '"format": 99'), "another version"),
    "a list of stages": ("stages.json", lambda text: "[]", "cannot be read"),
    "no stages": ("stages.json", replaced('"stages"', '"stage"'), "cannot be read"),
    "a module that does not parse": ("wrapper.py", lambda text: text.replace("def ", "def def ", 1), "SyntaxError"),
    "a module that raises": ("wrapper.py", lambda text: "raise RuntimeError('mine')\n" + text, "mine"),
    "a module without its function": ("wrapper.py", lambda text: "x = 1\n", "call"),
    "a module with a zero byte": ("wrapper.py", lambda text: text + "\0", "null"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit(dumped, tmp_path, name):
    x, folder = dumped
    pattern, edit, told = EDITS[name]
    copy = tmp_path / "dump"
    shutil.copytree(folder, copy)
    (path,) = copy.glob(f"*/{pattern}")
    text = edit(path.read_text())
    if isinstance(text, tuple):  # what another stage left
        (other,) = path.parent.glob(text[1])
        text = other.read_text()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with pytest.raises(UserError) as caught:
        compiled(x, replay=str(copy))
    assert told in str(caught.value) and path.name in str(caught.value)
    assert before == {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}


def test_a_stage_that_is_gone(dumped, tmp_path):
    x, folder = dumped
    copy = tmp_path / "dump"
    shutil.copytree(folder, copy)
    (path,) = copy.glob("*/*-form-kernels.mlir")
    path.unlink()
    with pytest.raises(UserError, match=r"form-kernels\.mlir: cannot be read"):
        compiled(x, replay=str(copy))
