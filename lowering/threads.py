"""Work on threads of its own. What forks waits for it, for a child has one thread, and whatever locks of LLVM the others held; so does the
end of the process, at which LLVM's tables go.
"""

import atexit
import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import TypeVar

T = TypeVar("T")

_running = 0
_changed = Condition()


def start(work: Callable[[], T]) -> "Future[T]":
    """Does `work` on a thread of its own. Raises RuntimeError where the process may have no more of them."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        _count(-1)

    _count(1)
    try:
        Thread(target=run, name="bascule-compile", daemon=True).start()
    except RuntimeError:
        _count(-1)
        raise
    return future


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def _count(change: int) -> None:
    global _running
    with _changed:
        _running += change
        _changed.notify_all()


def _before_fork() -> None:
    _changed.acquire()
    _changed.wait_for(lambda: _running == 0)


@atexit.register
def _before_exit() -> None:
    with _changed:
        _changed.wait_for(lambda: _running == 0)


os.register_at_fork(before=_before_fork, after_in_parent=_changed.release, after_in_child=_changed.release)
