"""Tools that are forks of one process do what the tools do: output, status, folder, environment, signals."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bascule.fork_server import HEAD, TOOLS, ForkServer, is_possible

pytestmark = pytest.mark.skipif(
    not is_possible(), reason="needs pidfd_open and descriptors sent through sockets, as Linux has"
)
MODULE = "func.func @f(%x: i32) -> i32 {\n  %0 = arith.addi %x, %x : i32\n  %1 = arith.addi %x, %x : i32\n  return %1 : i32\n}\n"
PASS = """
from bascule.dialect.passes.base import Pass

class {name}(Pass):
    name = "mine"
    takes = ""

    def run(self, module):
        import os
        print("{name}", os.getcwd(), os.environ.get("SAID"))
"""


@pytest.fixture(scope="module")
def server():
    server = ForkServer()
    yield server
    server.close()


def run(folder, name, *arguments, **how):
    return subprocess.run(
        [str(Path(folder) / name), *arguments], capture_output=True, text=True, timeout=120, check=False, **how
    )


@pytest.mark.parametrize(
    "call",
    [
        ["bascule-opt", "-", "--cse"],
        ["bascule-opt", "-", "--no-such-pass"],
        ["bascule-opt", "no_such_file.mlir"],
        ["bascule-run", "--help"],
        ["filecheck", "--help"],
    ],
    ids=" ".join,
)
def test_as_the_tool(server, call, tmp_path):
    own = Path(sys.executable).parent
    mine, theirs = (run(folder, *call, input=MODULE, cwd=tmp_path) for folder in (server.folder, own))
    assert (mine.returncode, mine.stdout, mine.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_folder_environment_and_modules_are_the_callers(server, tmp_path):
    for name in ("First", "Second"):  # modules of one name, in two folders
        folder = tmp_path / name
        folder.mkdir()
        (folder / "mine.py").write_text(PASS.format(name=name))
        environment = {**os.environ, "PYTHONPATH": str(folder), "SAID": name}
        call = ["bascule-opt", "-", f"--load-pass=mine:{name}", "--mine", "-o", "out.mlir"]
        done = run(server.folder, *call, input=MODULE, cwd=folder, env=environment)
        assert done.stdout == f"{name} {folder} {name}\n", done.stderr
        assert (folder / "out.mlir").exists()


def test_a_signal_ends_the_caller_too(server, tmp_path):
    (tmp_path / "mine.py").write_text("import os\nos.abort()\n")
    done = run(server.folder, "bascule-opt", "-", "--load-pass=mine:Mine", cwd=tmp_path, input=MODULE)
    assert done.returncode == -signal.SIGABRT


def test_who_is_killed_takes_the_tool_along(server, tmp_path):
    told = tmp_path / "told"
    (tmp_path / "mine.py").write_text(
        f"import os, time\nopen({str(told)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    caller = subprocess.Popen([server.folder / "bascule-opt", "-", "--load-pass=mine:Mine"], cwd=tmp_path)
    while not (told.exists() and told.read_text()):
        time.sleep(0.05)
    caller.kill()
    number, end = int(told.read_text()), time.monotonic() + 30
    while Path(f"/proc/{number}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_call_that_breaks_off_leaves_nothing_running(server):
    (head,) = re.findall(r"connect\('(.+)'\)", (server.folder / "bascule-opt").read_text())
    for sent in (b"", (100).to_bytes(HEAD, "little"), (100).to_bytes(HEAD, "little") + b"half"):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(60)
            caller.connect(head)
            caller.sendall(sent)
            caller.shutdown(socket.SHUT_WR)
            assert caller.recv(HEAD) == b""  # closed: the process that served it has ended


def test_it_ends_with_who_started_it():
    code = "import os; from bascule.fork_server import ForkServer; s = ForkServer(); print(s._process.pid, flush=True); os._exit(0)"
    number = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    end = time.monotonic() + 60
    while Path(f"/proc/{number}").exists():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_all_tools_are_there(server):
    assert {path.name for path in server.folder.iterdir()} == {*TOOLS}
