"""Kernels compiled by forks of a process that has loaded Triton and nothing else.

Threads of the user's process would wait for its interpreter's lock, which the passes hold meanwhile (one H200's host, 2026-11-29: 61 s of 16
threads for 25 s of work), and an assertion of LLVM's would end it. A fork takes a millisecond, and ends alone. The process ends with the one
that asks, or when it was asked nothing for a time.
"""

import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from types import SimpleNamespace
from typing import Any

from .triton_job import Job

IDLE = 120  # seconds without a kernel, after which the process ends
HEAD = 8  # bytes before an answer: its length
BEGUN = b"b"  # a fork is at work
LAUNCH = (
    "name",
    "shared",
    "num_warps",
    "global_scratch_size",
    "profile_scratch_size",
    "tensordesc_meta",
)  # of metadata
# The path of who starts it, whatever that was changed to.
CODE = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


class TritonFailed(Exception):
    """Of Triton, in a process of its own: the error that it raised there, "TypeError: ..", or that the process ended."""


class _Unavailable(Exception):
    """There is no such process, and why."""


@dataclass(frozen=True)
class _Failed:
    """An answer."""

    told: str


@dataclass
class CompilerProcess:
    """The process, of which there is one; `control` takes one end of a connection for each kernel."""

    control: socket.socket | None = None
    process: subprocess.Popen | None = field(default=None, repr=False)
    unavailable: str = ""  # why, once that is known
    lock: Any = field(default_factory=Lock, repr=False)

    def start(self, capability: int) -> None:
        """Begins to load Triton, for kernels of compute capability `capability` to come. Does not wait for it."""
        if not self.unavailable:
            with suppress(_Unavailable):
                self._control(capability)

    def run(self, job: Job) -> Any:
        """`Job.run` in a fork of the process; of `.asm` and `.metadata` what `machine_code` needs. Raises `TritonFailed`.

        Where no process can be had the job is run in this one, and the user is warned, once.
        """
        while not self.unavailable:
            try:
                return self._answered(job)
            except _Unavailable as error:
                with self.lock:
                    if not self.unavailable:
                        self.unavailable = str(error)
                        told = f"{error}: kernels are compiled in this process, which is slower"
                        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return job.run()

    def _answered(self, job: Job) -> Any:
        """Asks a second process if the first is gone, which ends when it was idle."""
        for _ in range(2):
            control = self._control(job.capability)
            own, given = socket.socketpair()
            with own:
                try:
                    with given:
                        socket.send_fds(control, [b"k"], [given.fileno()])
                    own.sendall(pickle.dumps((job, _folder(), dict(os.environ))))
                    own.shutdown(socket.SHUT_WR)
                    begun = own.recv(len(BEGUN))
                except OSError:  # it is gone, or another thread knows
                    begun = b""
                if begun:
                    return _read(own)
            self._ended(control)
        raise _Unavailable("the process that has loaded Triton ends at its start" + self._status())

    def _control(self, capability: int) -> socket.socket:
        with self.lock:
            if self.control is None:
                self._begin(capability)
                assert self.control is not None
            return self.control

    def _begin(self, capability: int) -> None:
        if not hasattr(os, "fork") or not hasattr(socket, "send_fds") or not sys.executable:
            raise _Unavailable("this system has no process that forks")
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = [os.path.abspath(place) for place in sys.path]
        code = CODE.format(path=path, module=__name__)
        command = [sys.executable, "-c", code, str(its.fileno()), str(capability)]
        with its:
            try:
                self.process = subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
            except OSError as error:
                own.close()
                raise _Unavailable(f"no process can be started: {error}") from error
        self.control = own

    def _ended(self, control: socket.socket) -> None:
        with self.lock:
            if self.control is control:  # no other thread has begun another
                self.control = None
        control.close()

    def _status(self) -> str:
        if self.process is None:
            return ""
        try:
            return f" (status {self.process.wait(1)})"
        except subprocess.TimeoutExpired:
            return ""

    def forget(self) -> None:
        """In a fork of the user's: it has a process of its own."""
        if self.control is not None:
            self.control.close()
        self.control, self.process, self.lock = None, None, Lock()


COMPILER = CompilerProcess()
os.register_at_fork(after_in_child=COMPILER.forget)


def _folder() -> str:
    """That is current, for relative places in the environment."""
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return os.sep


def _read(connection: socket.socket) -> Any:
    """The answer. Raises `TritonFailed`."""
    with connection.makefile("rb") as file:
        head = file.read(HEAD)
        content = file.read(int.from_bytes(head, "little"))
    if len(head) < HEAD or len(content) < int.from_bytes(head, "little"):
        raise TritonFailed("its process ended at once: a crash, or no memory")
    answer = pickle.loads(content)
    if isinstance(answer, _Failed):
        raise TritonFailed(answer.told)
    asm, metadata = answer
    return SimpleNamespace(asm=asm, metadata=SimpleNamespace(**metadata))


def main() -> None:
    """The process; its arguments are the descriptor of its end of `control`, and a compute capability."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who asks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    control, capability = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    empty = "module { tt.func public @empty() { tt.return } }"
    with suppress(Exception):  # it fails again, and is told, when there is a kernel
        Job("empty", empty, capability, {"num_warps": 4, "num_stages": 2}).run()
    gc.freeze()
    while select.select([control], [], [], IDLE)[0]:
        message, given, _, _ = socket.recv_fds(control, 1, 1)
        if not message:  # nobody can ask any more
            return
        if os.fork() == 0:
            control.close()
            with suppress(OSError):  # who asks is gone
                _answer(socket.socket(fileno=given[0]))
            os._exit(0)
        os.close(given[0])


def _answer(connection: socket.socket) -> None:
    """One kernel, in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Triton waits for the assembler
    with connection.makefile("rb") as file:
        job, folder, environment = pickle.load(file)
    connection.sendall(BEGUN)
    os.environ.clear()
    os.environ.update(environment)
    with suppress(OSError):
        os.chdir(folder)
    try:
        compiled = job.run()
        metadata = {name: getattr(compiled.metadata, name) for name in LAUNCH if hasattr(compiled.metadata, name)}
        answer: Any = ({kind: compiled.asm[kind] for kind in ("ttgir", "cubin")}, metadata)
    except Exception as error:
        answer = _Failed(f"{type(error).__name__}: {error}")
    content = pickle.dumps(answer)
    connection.sendall(len(content).to_bytes(HEAD, "little") + content)
