"""`bascule-reduce`: its oracles, and what it writes."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from bascule.reduction import command
from bascule.reduction.oracles import Oracle, filled

TEXT = """module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
    %0 = "bascule.compute"() ({
    ^bb0(%i: index):
      %e = tensor.extract %x[%i] : tensor<4xf32>
      %a = math.exp %e : f32
      %b = math.log %a : f32
      "bascule.yield"(%b) : (f32) -> ()
    }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "logs.mlir"
    path.write_text(TEXT)
    return path


def test_a_shell_command_says_what_fails(file, tmp_path, capsys):
    out = tmp_path / "out.mlir"
    passes = "canonicalize,fold-views,cse"
    test = "grep -q math.exp {} && echo {pipeline} | grep -q fold-views"
    assert command.main([str(file), f"--test={test}", f"--pipeline={passes}", "-o", str(out)]) == 0
    first, *module = out.read_text().splitlines()
    assert first == "// RUN: grep -q math.exp %s && echo fold-views | grep -q fold-views"
    assert "math.exp" in "".join(module) and "math.log" not in "".join(module) and "4" not in "".join(module)
    assert "3 passes are 1" in capsys.readouterr().err


def test_what_does_not_fail_is_not_reduced(file, capsys):
    for test in ("false", "crash", "mismatch"):
        assert command.main([str(file), f"--test={test}", "--pipeline=form-kernels"]) == 1
        assert "logs.mlir: the module does not fail" in capsys.readouterr().err


def test_bad_input_is_an_error(file, tmp_path, capsys):
    for arguments in ([str(tmp_path / "none.mlir"), "--test=true"], [str(file), "--test=true", "--pipeline=no-such"]):
        assert command.main(arguments) == 1
        told = capsys.readouterr().err
        assert told.startswith("bascule-reduce: error: ") and "Traceback" not in told


def test_a_file_is_written_whole_or_not_at_all(file, monkeypatch):
    def fails(*paths):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fails)
    assert command.main([str(file), "--test=grep -q math {}", "-o", str(file)]) == 1
    assert file.read_text() == TEXT
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_test_that_takes_too_long_is_no_failure():
    assert Oracle("true").failure(TEXT, ()) != ""
    assert Oracle("sleep 20", timeout=0.2).failure(TEXT, ()) == ""


def test_what_a_test_started_ends_with_it(tmp_path):
    """A pipe's other end, say, of which the shell that is waited for knows nothing."""
    alive = tmp_path / "alive"
    for started in (f"(while sleep 0.02; do echo >> {alive}; done) | cat", f"(sleep 0.1; echo >> {alive}) & exit 0"):
        Oracle(started, timeout=0.3).failure(TEXT, ())
        alive.unlink(missing_ok=True)
        time.sleep(0.3)
        assert not alive.exists()


def test_passes_are_one_word_of_a_command():
    pipeline = "form-kernels,func.func(canonicalize{max-iterations=3 top-down=false})"
    for quote in ("", "'", '"'):
        command = f"bascule-opt {{}} --pass-pipeline={quote}{{pipeline}}{quote}"
        assert shlex.split(filled(command, "f.mlir", pipeline)) == [
            "bascule-opt",
            "f.mlir",
            f"--pass-pipeline={pipeline}",
        ]


def test_a_test_that_changes_its_mind_is_told_of(file, tmp_path, capsys):
    """It says yes twice, to the file and to one that is smaller, and then no."""
    asked = tmp_path / "asked"
    status = command.main([str(file), f"--test=echo >> {asked}; test $(wc -l < {asked}) -le 2"])
    told = capsys.readouterr()
    assert status == 1 and "does not fail when it is tried again" in told.err and told.out.startswith("// RUN: ")


def test_an_interrupt_leaves_the_smallest_so_far(file, tmp_path):
    out, tried = tmp_path / "out.mlir", tmp_path / "tried"
    test = f"grep -q math.exp {{}} && echo >> {tried} && sleep 0.05"
    process = subprocess.Popen(
        [sys.executable, "-m", "bascule.reduction.command", str(file), f"--test={test}", "-o", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not tried.exists() or len(tried.read_text()) < 4:  # the file itself, and three that are smaller
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "interrupted, the smallest so far" in told, told
    before, after = map(int, re.findall(r"(\d+) operations are (\d+)", told)[0])
    assert after < before and "math.exp" in out.read_text()
