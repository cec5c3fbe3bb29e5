"""A test that hangs, in native code too, ends its process after a time, and is named: no run waits for it for ever."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The interpreter's lock stays taken: neither a signal's handler nor another thread of Python's would run.
HANGS = """
import ctypes


def test_before():
    pass


def test_that_hangs():
    ctypes.PyDLL(None).sleep(100)
"""


def test_it_ends_and_is_named(tmp_path):
    (tmp_path / "test_of_two.py").write_text(HANGS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "--noconftest", "-vv"]
        + ["-p", "no:cacheprovider", "-o", "faulthandler_timeout=1", tmp_path / "test_of_two.py"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode != 0
    assert "test_before PASSED" in run.stdout and "Timeout (0:00:01)!" in run.stderr
    assert "in test_that_hangs" in run.stderr


def test_the_time_is_not_unlimited(pytestconfig):
    assert 60 <= float(pytestconfig.getini("faulthandler_timeout")) <= 1800
    assert pytestconfig.getini("faulthandler_exit_on_timeout")
