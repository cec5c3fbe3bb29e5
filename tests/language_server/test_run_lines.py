"""The passes of RUN lines."""

import re
from pathlib import Path

import pytest
from bascule.dialect.tools.command_line import parse_arguments

from bascule.language_server.checks import check
from bascule.language_server.run_lines import first_run_line
from bascule.tools.run import main as run

TESTS = sorted((Path(__file__).parents[2] / "lit_tests").rglob("*.mlir"))


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "// RUN: bascule-opt %s --form-kernels=max-ops=3 -o %t --cse | filecheck %s --check-prefix=A",
            ["--form-kernels=max-ops=3", "--cse"],
        ),
        ("// RUN: not bascule-opt --verify-diagnostics --split-input-file %s --cse", ["--cse"]),
        (
            "// RUN: bascule-opt %s | filecheck %s\n// RUN: bascule-opt %s --pass-pipeline='a,b' > %t",
            ["--pass-pipeline=a,b"],
        ),
        ("// RUN: bascule-opt %s --pass-pipeline 'a,b'", ["--pass-pipeline=a,b"]),
        (
            "// RUN: bascule-run %s --shapes s0=4 --pipeline='form-kernels,cse' --seed=3",
            ["--pass-pipeline=form-kernels,cse"],
        ),
        ("// RUN: bascule-run %s --pipeline=default", None),
        ("// RUN: bascule-opt %s --cse \\\n// RUN:   --canonicalize && x --y", ["--cse", "--canonicalize"]),
        ("// RUN: bascule-opt %s --load-pass=%S/p.py:P --p", ["--load-pass=/a/b/p.py:P", "--p"]),
        ("// RUN: bascule-opt %s --load-pass=p:P", None),
        ("// RUN: bascule-opt %s --allow-unregistered-dialect --cse", ["--allow-unregistered-dialect", "--cse"]),
        ("// RUN: bascule-opt %s --cse '", None),
        ("// RUN: mlir-opt %s --cse", None),
        ("module {}", None),
    ],
)
def test_flags_of_passes_are_taken(text, words):
    found = first_run_line(text, "/a/b/test.mlir")
    assert (None if found is None else list(found.words)) == words


def test_no_option_of_bascule_run_is_taken_for_a_pass(capsys):
    with pytest.raises(SystemExit):
        run(["--help"])
    options = set(re.findall(r"--[a-z][\w-]*", capsys.readouterr().out)) - {"--pipeline", "--load-pass", "--load-hooks"}
    assert len(options) > 8
    for option in options:
        assert first_run_line(f"// RUN: bascule-run %s {option}=1", "test.mlir") is None, option


@pytest.mark.parametrize("path", TESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_of_the_tests(path):
    """Their first RUN lines name passes that are known; errors are at places that are there, and only where they are expected."""
    text = path.read_text()
    line = first_run_line(text, str(path))
    if line is not None and not line.loads:
        assert parse_arguments(list(line.words)).pipelines()
    lines = text.split("\n")
    found = check(text, str(path))
    errors = [finding for finding in found if finding.kind == "error"]
    assert all(1 <= error.line <= len(lines) and 1 <= error.column <= len(lines[error.line - 1]) + 1 for error in found)
    assert not errors or re.search(r"expected-error|RUN:.*\bnot |allow-unregistered", text), errors
