"""Each command, the package and `python -m bascule` tell the version."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import bascule

COMMANDS = [entry for entry in entry_points(group="console_scripts") if entry.value.startswith("bascule.")]


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_tells_its_version(entry, capsys):
    try:
        entry.load()(["--version"])
    except SystemExit as end:  # argparse's
        assert not end.code
    assert capsys.readouterr().out.startswith(f"{entry.name} {version('bascule')}")
    assert 'if __name__ == "__main__"' in Path(import_module(entry.module).__file__).read_text()


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "bascule", "cache", "stat"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("directory: ") and bascule.__version__ == version("bascule")
