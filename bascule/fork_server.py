"""Tools of the command line without their start: a process that has imported them forks at each call. For lit, whose RUN lines are many.

Scripts stand in for the tools. One gives its arguments, folder, environment and standard streams to the server and ends as the tool does, by a
signal too. A tool whose caller is gone is killed; the server ends with who started it.
"""

import atexit
import gc
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from bascule.dialect.interrupts import tolerating

TOOLS = ("bascule-opt", "bascule-import", "bascule-reduce", "bascule-run", "filecheck")
# What tools import when they know what is asked.
PRELOADED = ("bascule.entry.backend", "bascule.compiler.compile_graph")
HEAD = 8  # bytes before a message: its length

# It imports next to nothing: 10 ms.
SCRIPT = """#!{python} -IS
import marshal, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
message = marshal.dumps(({name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)))
socket.send_fds(server, [len(message).to_bytes({head}, "little")], [0, 1, 2])
server.sendall(message)
told = server.recv({head})
if not told:
    sys.exit({name!r} + ": the process that runs it is gone")
status = int.from_bytes(told, "little", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def is_possible() -> bool:
    """Whether this system has what it takes: Linux has."""
    return hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")


class ForkServer:
    """The server, and a `folder` with the scripts. It runs until `close`, or until this process and its forks have ended."""

    def __init__(self, tools: Sequence[str] = TOOLS, environment: dict[str, str] | None = None):
        self._temporary = tempfile.TemporaryDirectory(prefix="bascule-fork-server-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name) / "bin"
        self.folder.mkdir()
        address = f"{self._temporary.name}/socket"
        for name in tools:
            script = self.folder / name
            script.write_text(SCRIPT.format(python=sys.executable, address=address, name=name, head=HEAD))
            script.chmod(0o755)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen(128)
        with listening:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(listening.fileno()), *tools],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=[listening.fileno()],
            )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._temporary.cleanup()


def main(arguments: Sequence[str]) -> None:
    """The server: `arguments` are the descriptor it listens at, and the tools."""
    listening = socket.socket(fileno=int(arguments[0]))
    known = {entry.name: entry for entry in entry_points(group="console_scripts") if entry.name in arguments[1:]}
    tools = {name: entry.load() for name, entry in known.items()}
    for name in PRELOADED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that serve a call
    while True:
        ready, _, _ = select.select([listening.fileno(), 0], [], [])
        if 0 in ready:  # nobody can call any more
            return
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(connection, tools)
        connection.close()


def _serve(connection: socket.socket, tools: dict[str, Callable[[], Any]]) -> NoReturn:
    """One call. In a process of its own, which has a second one run the tool."""
    head, streams, _, _ = socket.recv_fds(connection, HEAD, 3)
    size = int.from_bytes(head, "little")
    message = connection.makefile("rb").read(size)
    if not head or len(message) < size:  # who called is gone
        os._exit(0)
    name, arguments, folder, environment = marshal.loads(message)
    runner = os.fork()
    if runner == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        where = str(Path(sys.executable).parent / name)
        sys.argv = [where, *arguments]
        sys.path[:1] = [str(Path(where).parent), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        # Those of the server know what its own can do: be sought in, for one.
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        _run(tools[name])
    for stream in streams:  # who reads them waits for all that hold them
        os.close(stream)
    watched = os.pidfd_open(runner)
    ready, _, _ = select.select([connection.fileno(), watched], [], [])
    if watched not in ready:
        os.kill(runner, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1])
    with tolerating(OSError):  # who called may be gone
        connection.sendall(status.to_bytes(HEAD, "little", signed=True))
    os._exit(0)


def _run(tool: Callable[[], Any]) -> NoReturn:
    """Ends the process as a script would that calls `tool`; but memory is not taken down piece by piece, which takes half a second."""
    status: Any = 0
    try:
        status = tool()
    except SystemExit as error:
        status = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    main(sys.argv[1:])
