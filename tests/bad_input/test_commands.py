"""Bad modules, pipelines, options and files: each tool gives an error with a place and exit status 1, and writes nothing."""

from pathlib import Path

import pytest
from bascule.dialect import passes
from bascule.dialect.tools.opt import main as opt

from bascule.reduction.command import main as reduce
from bascule.tools.import_function import main as import_
from bascule.tools.main import main as bascule
from bascule.tools.run import main as run

from .commands import COMMANDS, FILES
from .modules import MODULES, NOT_REDUCED, RIGHT

TOOLS = {
    "bascule-opt": opt,
    "bascule-run": run,
    "bascule-import": import_,
    "bascule-reduce": reduce,
    "bascule": bascule,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The files that command lines name; no command may add one, or change one."""
    folder = tmp_path_factory.mktemp("bad")
    for name, text in {**FILES, "right.mlir": RIGHT}.items():
        (folder / name).write_text(text)
    for name, pipeline in {"program": "form-kernels,schedule-kernels,bufferize-kernels,plan-memory"}.items():
        made = str(folder / f"{name}.mlir")
        assert opt([str(folder / "right.mlir"), f"--pass-pipeline=builtin.module({pipeline})", "-o", made]) == 0
    return folder


def listed(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def error_of(command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error that a command prints as it fails."""
    tool, *arguments = [word.replace("{}", str(folder)) for word in command]
    before = listed(folder)
    try:
        status = TOOLS[tool](arguments)
    except SystemExit as end:
        status = end.code
    assert status == 1
    out, error = capsys.readouterr()
    assert out == "" and "Traceback" not in error
    assert listed(folder) == before
    return error


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(files, capsys, name):
    command, told = COMMANDS[name]
    assert told.replace("{}", str(files)) in error_of(command, files, capsys)


TRIED = [
    (name, tool)
    for name in MODULES
    for tool in ("bascule-opt", "bascule-run", "bascule-reduce")
    if tool != "bascule-reduce" or name not in NOT_REDUCED
]


@pytest.mark.parametrize("name, tool", TRIED)
def test_a_module(tmp_path, capsys, name, tool):
    text, line, told = MODULES[name]
    file = tmp_path / "input.mlir"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    how = {
        "bascule-opt": ["--form-kernels", "-o", "{}/output"],
        "bascule-run": ["--pipeline=form-kernels", "--interpret-only"],
        "bascule-reduce": ["--test=crash", "-o", "{}/output"],
    }
    error = error_of([tool, str(file), *how[tool]], tmp_path, capsys)
    assert told in error and f"{file}{f':{line}:' if line else ''}" in error


WITH_TARGET = [name for name in passes.own_names() if "target" in passes.find(name).option_defaults()]


@pytest.mark.parametrize("name", WITH_TARGET)
def test_a_pass_refuses_a_target_that_is_not_there(files, capsys, name):
    file = "program.mlir" if passes.find(name).takes == passes.BUFFERS else "right.mlir"
    assert "abacus" in error_of(["bascule-opt", f"{{}}/{file}", f"--{name}=target=abacus"], files, capsys)
