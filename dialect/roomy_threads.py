"""Threads with stack enough for MLIR and LLVM, whatever `threading.stack_size` says of the threads of the user's: functions of theirs take
hundreds of KiB at once, and the process ends where a stack does."""

import os
import resource
import threading
from collections.abc import Callable
from concurrent.futures import Future
from threading import RLock, Thread
from typing import TypeVar

from .interrupts import pass_on

T = TypeVar("T")

LEAST = 8 << 20  # bytes, as a main thread has; memory is what of it is touched
UNIT = 1 << 16  # of sizes that every system takes

_size_is_ours = RLock()  # while `threading.stack_size` is


def begin(thread: Thread) -> None:
    """Starts `thread`. Raises as `Thread.start` does."""
    with _size_is_ours:
        before = threading.stack_size(_enough())
        try:
            thread.start()
        finally:
            threading.stack_size(before)


def with_room(work: Callable[[], T]) -> T:
    """Does `work`, and returns what it does: by the main thread, which has room, or by a thread that has; here where there can be no thread."""
    if threading.current_thread() is threading.main_thread():
        return work()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    try:
        begin(Thread(target=run, name="bascule-room", daemon=True))
    except RuntimeError as error:
        pass_on(error)
        return work()
    return future.result()


def _enough() -> int:
    """The bytes that a thread has by the limits of the process, but `LEAST` at least."""
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return LEAST if limit == resource.RLIM_INFINITY else max(LEAST, limit // UNIT * UNIT)


os.register_at_fork(
    before=_size_is_ours.acquire, after_in_parent=_size_is_ours.release, after_in_child=_size_is_ours.release
)
