"""The object file of a JIT's code, without a file.

`mlirExecutionEngineDumpToObjectFile` is the one way to the object code, and LLVM ends the process where such a write fails: on a full disk, over
a quota, over RLIMIT_FSIZE. So it writes into a pipe. Opening an output it also takes over the signals of the process
(SIGINT, SIGTERM, SIGXFSZ, ..): they are given back.
"""

import ctypes
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from io import FileIO

from bascule.dialect.errors import CompilerError
from bascule.dialect.interrupts import pass_on

from ...threads import start
from .c_api import Handle, mlir, text

_LAST_STANDARD = 2  # standard error
_SIGACTION_BYTES = 256  # at least those of the C library's `struct sigaction`: 152 on x86-64


def object_file(engine: Handle) -> bytes:
    """The code of `engine`, compiled, as an ELF file. Raises `CompilerError` where LLVM writes none, `OSError` where there are no file
    descriptors left."""
    with _beyond_standard():
        return _through_pipe(engine)


def _through_pipe(engine: Handle) -> bytes:
    reading, writing = os.pipe()
    try:
        content = _read_apart(reading)  # at the same time: a pipe holds 64 KiB
        with _signals_kept():
            mlir().ExecutionEngineDumpToObjectFile(engine, text(f"/proc/self/fd/{writing}"))
    finally:
        os.close(writing)  # LLVM has opened, and closed, the pipe once more: now it ends
    found = content.result()
    if not found:
        raise CompilerError("the JIT writes no object file")
    return found


@contextmanager
def _beyond_standard() -> Iterator[None]:
    """Descriptors that are opened inside are none of the first three, which LLVM never closes: a daemon may have closed them, and would wait for
    the end of the pipe for ever."""
    held = []
    try:
        while (descriptor := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) <= _LAST_STANDARD:
            held.append(descriptor)
        os.close(descriptor)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _read_apart(descriptor: int) -> "Future[bytes]":
    """All that is read of `descriptor`, by a thread, which closes it. Whoever began that may not: where a signal ends its wait, the thread would
    read what has the same number next."""
    file = FileIO(descriptor)
    try:
        return start(partial(_read_all, file))
    except OSError as error:
        pass_on(error)  # of a signal's handler: the thread may run
        file.close()
        raise


def _read_all(file: FileIO) -> bytes:
    with file:
        return file.readall()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Afterwards every signal is handled, or ignored, as it was before."""
    sigaction = ctypes.CDLL(None).sigaction
    kept = {}
    for number in map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}):
        action = ctypes.create_string_buffer(_SIGACTION_BYTES)
        if sigaction(number, None, action) == 0:
            kept[number] = action
    try:
        yield
    finally:
        for number, action in kept.items():
            sigaction(number, action, None)
