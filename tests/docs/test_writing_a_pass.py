"""docs/writing-a-pass.md: its pass works as written, by the commands that are written there."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from bascule.dialect.passes import registry
from bascule.dialect.tools import opt
from filecheck.main import main as filecheck_main

from bascule.tools import run

TEXT = (Path(__file__).parents[2] / "docs" / "writing-a-pass.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The pass and its test as files beside each other, where Python finds the pass."""
    (tmp_path / "reciprocals.py").write_text(blocks("python")[0])
    (tmp_path / "input.mlir").write_text(blocks("mlir")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_added", dict(registry._added))
    yield tmp_path
    sys.modules.pop("reciprocals", None)


def filecheck(arguments: list[str], text: str, monkeypatch) -> None:
    Path("printed").write_text(text)
    monkeypatch.setattr(sys, "argv", ["filecheck", *arguments, "--input-file", "printed"])
    with pytest.raises(SystemExit) as end:
        filecheck_main()
    assert not end.value.code


def test_its_commands_print_the_same(files, capsys):
    commands = blocks("sh")[0].replace("\\\n", "").splitlines()
    printed = []
    for command in commands:
        name, *words = shlex.split(command)
        assert name == "bascule-opt" and opt.main(words) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and "arith.mulf" in printed[0]


def test_its_run_lines_hold(files, capsys, monkeypatch):
    lines = re.findall(r"// RUN: (.*)", blocks("mlir")[0])
    tools = {"bascule-opt": opt.main, "bascule-run": run.main}
    assert len(lines) == 2
    for line in lines:
        (name, *words), (check, *arguments) = (shlex.split(p.replace("%s", "input.mlir")) for p in line.split(" | "))
        assert tools[name](words) == 0 and check == "filecheck"
        filecheck(arguments, capsys.readouterr().out, monkeypatch)


def test_it_is_taken_by_torch_compile(files):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
    text = (
        next(block for block in blocks("python") if "torch.compile" in block)
        .replace("lambda x: x.sin() / 4", "lambda x: model(x) / 4")
        .replace("compiled(torch.randn(8))", "")
    )
    names = {"model": model}
    exec(text.replace("options={", "options={'on_error': 'raise', 'cache': False, "), names)
    x = torch.randn(3, 4)
    torch.testing.assert_close(names["compiled"](x), model(x) / 4)
