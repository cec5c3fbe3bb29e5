"""Kernels lowered and compiled by forks of a process that has loaded Triton and what lowers to it, and no PyTorch.

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
from importlib import import_module
from threading import Lock
from typing import Any, Protocol

from bascule.dialect.interrupts import pass_on, tolerating

IDLE = 120  # seconds without a kernel, after which the process ends
HEAD = 8  # bytes before an answer: its length
# NumPy, which MLIR's bindings import, starts as many threads as it is told of: what forks is to have one.
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
BEGUN = b"b"  # a fork is at work
PARTS = ("triton_job", "lowering_job")  # files of this folder that it loads
LONGEST = max(map(len, PARTS))
# The path of who starts it, whatever that was changed to.
CODE = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


class JobFailed(Exception):
    """The error that a fork raised, "TypeError: ..", or that it ended."""


class Unavailable(Exception):
    """There is no process that forks, and why."""


class Job(Protocol):
    """Work for a fork: what can be pickled, and an answer that can."""

    @property
    def part(self) -> str:
        """Of `PARTS`, the one to be loaded before."""
        ...

    def answer(self) -> Any: ...


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
    loaded: set[str] = field(default_factory=set)  # parts of it
    lock: Any = field(default_factory=Lock, repr=False)

    def start(self) -> None:
        """Begins to load its parts. Does not wait for them."""
        if not self.unavailable:
            with suppress(Unavailable):
                self._control()

    def has_loaded(self, part: str) -> bool:
        """Whether a job of `part` would be begun at once."""
        with self.lock, tolerating(OSError):
            while self.control is not None:
                self.loaded.add(self.control.recv(LONGEST, socket.MSG_DONTWAIT).decode())
                if "" in self.loaded:
                    break
        return part in self.loaded

    def ask(self, job: Job) -> Any:
        """The answer of a fork. Raises `JobFailed`, and `Unavailable`."""
        for _ in range(2):  # the first may end at this moment
            control = self._control()
            own, given = _connection(socket.SOCK_STREAM)
            with own:
                try:
                    with given:
                        socket.send_fds(control, [job.part.encode()], [given.fileno()])
                    own.sendall(pickle.dumps((job, _folder(), dict(os.environ))))
                    own.shutdown(socket.SHUT_WR)
                    begun = own.recv(len(BEGUN))
                except OSError as error:  # it is gone, or another thread knows
                    pass_on(error)
                    begun = b""
                if begun:
                    return _read(own)
            self._ended(control)
        raise Unavailable("the process that has loaded Triton ends at its start" + self._status())

    def run(self, job: Job) -> Any:
        """The same, or, without such a process, the answer of this one, with a warning, once. Raises `JobFailed`, or what the job does."""
        if not self.unavailable:
            try:
                return self.ask(job)
            except Unavailable as error:
                with self.lock:
                    told, self.unavailable = not self.unavailable, str(error)
                if told:
                    message = f"{error}: kernels are compiled in this process, which is slower"
                    warnings.warn(message, RuntimeWarning, stacklevel=2)
        return job.answer()

    def _control(self) -> socket.socket:
        with self.lock:
            ended = self.process is None or self.process.poll() is not None  # it ends when it was idle
            if self.control is None or ended:
                self._begin()
                assert self.control is not None
            return self.control

    def _begin(self) -> None:
        if not hasattr(os, "fork") or not hasattr(socket, "send_fds") or not sys.executable:
            raise Unavailable("this system has no process that forks")
        if self.control is not None:
            self.control.close()
            self.control = None
        code = CODE.format(path=[os.path.abspath(place) for place in sys.path], module=__name__)
        own, its = _connection(socket.SOCK_SEQPACKET)
        with its:
            command, environment = [sys.executable, "-c", code, str(its.fileno())], {**os.environ, **ALONE}
            try:
                self.process = subprocess.Popen(
                    command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=environment
                )
            except OSError as error:
                own.close()
                raise Unavailable(f"no process can be started: {error}") from error
        self.control, self.loaded = own, set()

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


def _connection(kind: int) -> tuple[socket.socket, socket.socket]:
    """Its two ends. Raises `Unavailable` for a kind that the system lacks, or where no file may be opened."""
    try:
        return socket.socketpair(socket.AF_UNIX, kind)
    except OSError as error:
        raise Unavailable(f"no process can be asked: {error}") from error


def _folder() -> str:
    """That is current, for relative places in the environment."""
    with tolerating(OSError):  # it is gone
        return os.getcwd()
    return os.sep


def _read(connection: socket.socket) -> Any:
    """The answer. Raises `JobFailed`."""
    with connection.makefile("rb") as file:
        head = file.read(HEAD)
        content = file.read(int.from_bytes(head, "little"))
    if len(head) < HEAD or len(content) < int.from_bytes(head, "little"):
        raise JobFailed("its process ended at once: a crash, or no memory")
    answer = pickle.loads(content)
    if isinstance(answer, _Failed):
        raise JobFailed(answer.told)
    return answer


def main() -> None:
    """The process; its argument is the descriptor of its end of `control`. It loads parts while it is asked for nothing,
    and tells of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who asks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    sys.modules["torch"] = None  # type: ignore[assignment]  # a fork would load it for seconds: who asks has it
    with tolerating(ConnectionError):  # who asks is gone, and has left something unread
        _serve(socket.socket(fileno=int(sys.argv[1])))


def _serve(control: socket.socket) -> None:
    """Jobs that are asked for through `control`, until nobody can ask any more."""
    waiting = list(PARTS)

    def load(part: str) -> None:
        if part in waiting:
            waiting.remove(part)
            import_module(f"{__spec__.parent}.{part}").load()
            gc.freeze()
            control.send(part.encode())

    while True:
        if not select.select([control], [], [], 0 if waiting else IDLE)[0]:
            if not waiting:
                return
            load(waiting[0])
            continue
        part, given, _, _ = socket.recv_fds(control, LONGEST, 1)
        if not part:
            return
        load(part.decode())
        if os.fork() == 0:
            control.close()
            with tolerating(OSError):  # who asks is gone
                _answer(socket.socket(fileno=given[0]))
            os._exit(0)
        os.close(given[0])


def _answer(connection: socket.socket) -> None:
    """One job, in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Triton waits for the assembler
    with connection.makefile("rb") as file:
        job, folder, environment = pickle.load(file)
    connection.sendall(BEGUN)
    os.environ.clear()
    os.environ.update(environment)
    with tolerating(OSError):
        os.chdir(folder)
    try:
        answer: Any = job.answer()
    except Exception as error:  # raised, or done otherwise, by who asks
        pass_on(error)
        answer = _Failed(f"{type(error).__name__}: {error}")
    content = pickle.dumps(answer)
    connection.sendall(len(content).to_bytes(HEAD, "little") + content)
