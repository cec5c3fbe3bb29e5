"""Standard streams that are closed, full, or read by nobody, and interrupts: a command tells of it in a line, and ends with a status."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.tools.command_line import writable

from .modules import RIGHT

# Of each command, one that prints much and one that prints little.
COMMANDS = {
    "bascule-opt": [["-h"], ["--list-passes"], ["--version"], ["{}", "--form-kernels"]],
    "bascule-run": [["{}", "--print"], ["-h"]],
    "bascule-import": [["-h"]],
    "bascule-reduce": [["-h"]],
    "bascule": [["cache", "stat"]],
}
MAINS = {
    "bascule-opt": "bascule.dialect.tools.opt",
    "bascule-run": "bascule.tools.run",
    "bascule-import": "bascule.tools.import_function",
    "bascule-reduce": "bascule.reduction.command",
    "bascule": "bascule.tools.main",
}
CASES = [(tool, words) for tool, lines in COMMANDS.items() for words in lines]
# argparse prints the help of these, and forgives whoever does not take it.
FORGIVEN = [(tool, ["-h"]) for tool in COMMANDS if tool != "bascule-opt"]


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("streams") / "right.mlir"
    file.write_text(RIGHT)
    return str(file)


def process_of(tool: str, words: list[str], right: str, redirected: str = "", **streams) -> tuple[int, str]:
    """The exit status of a command in a process of its own, and its standard error."""
    program = f"from {MAINS[tool]} import main; raise SystemExit(main())"
    words = [sys.executable, "-c", program, *(word.replace("{}", right) for word in words)]
    shell = ["sh", "-c", f'exec "$@" {redirected}', "sh", *words]
    streams = {"stdout": subprocess.DEVNULL, **streams}
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=200, check=False, **streams)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("tool, words", [case for case in CASES if case not in FORGIVEN])
@pytest.mark.parametrize("redirected", [">/dev/full", ">&-"])
def test_an_output_that_takes_nothing(right, tool, words, redirected):
    status, told = process_of(tool, words, right, redirected)
    assert status == 1 and told.startswith(f"{tool}: error: ")
    assert "No space left on device" in told if "full" in redirected else "Bad file descriptor" in told


@pytest.mark.parametrize("tool, words", CASES)
def test_an_output_that_nobody_reads(right, tool, words):
    """As behind `| head -1`: no complaint."""
    reading, writing = os.pipe()
    os.close(reading)
    status, told = process_of(tool, words, right, stdout=writing)
    os.close(writing)
    assert (status, told) in [(0, ""), (128 + signal.SIGPIPE, "")]


@pytest.mark.parametrize("tool", ["bascule-opt", "bascule-run"])
def test_an_input_that_is_closed(right, tool):
    status, told = process_of(tool, ["-"], right, "<&-")
    assert status == 1 and told.startswith(f"{tool}: error: ") and "Bad file descriptor" in told


@pytest.mark.parametrize("tool", ["bascule-opt", "bascule-run"])
def test_an_input_that_can_be_read_once(right, tmp_path, tool):
    """A named pipe, as `<(command)` of a shell is one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"sed 's/addf %e, %e/addf %e, %z/' {right} > {pipe}"]):
        status, told = process_of(tool, [str(pipe)], right)
    assert status == 1 and "undeclared SSA value" in told and (tool != "bascule-opt" or f"{pipe}:5:" in told)


@pytest.mark.parametrize(
    "tool, words", [("bascule-opt", ["--form-kernels"]), ("bascule-reduce", ["--test=grep addf {}"])]
)
def test_a_result_to_what_is_no_file(right, tool, words):
    """Where the standard output is a pipe, the name of it is none of a file."""
    done = subprocess.run(
        [sys.executable, "-m", MAINS[tool], right, *words, "-o", "/dev/stdout"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "arith.addf" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_what_may_be_written_by_whom():
    """A device in a folder that is not theirs, but no file that is not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        mine = f"{folder}/mine"
        open(mine, "w").close()
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                allowed = [_is_writable(path) for path in ("/dev/null", f"{folder}/new", mine, "/etc/new", "/root/x/y")]
                os._exit(allowed != [True, True, False, False, False])
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_writable(path: str) -> bool:
    try:
        writable(path, "-o")
    except UserError:
        return False
    return True


def test_an_error_that_nobody_reads(right):
    assert process_of("bascule-opt", [f"{right}.not"], right, "2>&-") == (1, "")


def test_a_result_in_a_file_needs_no_output(right, tmp_path):
    out = tmp_path / "out.mlir"
    assert process_of("bascule-opt", ["{}", "-o", str(out)], right, ">&- <&-") == (0, "")
    assert "bascule.compute" in out.read_text()


def test_characters_that_the_output_has_no_code_for_are_escaped(right):
    """`--help=` tells of a pass in our words; a name of a file is printed as it came."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = (
        "from bascule.dialect.tools.command import command; command('x')(lambda argv: print('\\u03bb\\udcff') or 0)()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\u03bb\\udcff\n", "")


@pytest.mark.parametrize(
    "word, told", [("--pass-pipeline=func.func(\udcff)", "pipeline:1: "), ("--\udcff", "neither an option nor a pass")]
)
def test_half_a_character_on_the_command_line(right, word, told):
    status, error = process_of("bascule-opt", [right, word], right)
    assert status == 1 and told in error


def test_a_file_whose_name_is_no_text(right, tmp_path):
    file = tmp_path / "\udcff.mlir"
    file.write_text(RIGHT)
    assert process_of("bascule-opt", [str(file), "--form-kernels"], right) == (0, "")
    assert process_of("bascule-run", [str(file), "--pipeline=form-kernels"], right) == (0, "")
    file.write_text(RIGHT.replace("%e, %e", "%e, %z"))
    status, error = process_of("bascule-opt", [str(file)], right)
    assert status == 1 and "\\udcff.mlir:5:" in error and "undeclared SSA value" in error


@pytest.mark.parametrize("tool", MAINS)
def test_an_interrupt(tool):
    """While the command works, at whatever: here, as it looks at its arguments."""
    program = (
        f"import sys, signal; import {MAINS[tool]} as tool\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background is born without
        "class Arguments(list):\n    def __getitem__(self, at): signal.raise_signal(signal.SIGINT)\n"
        "    __iter__ = __contains__ = __len__ = __getitem__\n    def __iter__(self): self[0]\n"
        "raise SystemExit(tool.main(Arguments()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, f"{tool}: interrupted\n")
