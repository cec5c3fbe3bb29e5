"""Work on threads of its own. What forks waits for it, for a child has one thread, and whatever locks of LLVM the others held; so does the
end of the process, at which LLVM's tables go.
"""

import atexit
import errno
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Condition, Event, Thread, local
from typing import TypeVar

from bascule.dialect.interrupts import pass_on
from bascule.dialect.roomy_threads import begin

K = TypeVar("K")
T = TypeVar("T")

_running: set[object] = set()  # one for each thread
_changed = Condition()
_mine = local()  # `future`: of the work that a thread was begun for; `place`: its own in `_running`


def start(work: Callable[[], T]) -> "Future[T]":
    """Does `work` on a thread of its own. Raises `OSError` where there can be none: of as many as there may be, or at the end of the process."""
    future: Future[T] = Future()
    place = object()

    def run() -> None:
        _begun(place)  # again, where a signal ended the wait for this thread
        _mine.future, _mine.place = future, place
        try:
            _do(work, future)
        finally:
            _ended(place)

    thread = Thread(target=run, name="bascule-compile", daemon=True)
    try:
        _begun(place)
        begin(thread)
    except BaseException as error:
        if thread.ident is None:
            _ended(place)  # else a fork, and the end of the process, wait for it
        if not isinstance(error, RuntimeError):
            raise
        pass_on(error)  # of a signal's handler
        raise OSError(errno.EAGAIN, str(error)) from error
    return future


def start_or_do(work: Callable[[], T]) -> "Future[T]":
    """`start`, or, where there can be no other thread, `work` is done when this returns."""
    try:
        return start(work)
    except OSError as error:
        pass_on(error)
        future: Future[T] = Future()
        _do(work, future)
        return future


def give_up(error: Exception) -> None:
    """Of a callback, where its caller can neither go on nor be left: what this thread was begun for fails by `error`, and the thread stays here
    until the process ends. Returns where the thread is none of ours, or has more to do than that."""
    future: Future[object] | None = getattr(_mine, "future", None)
    if future is None:
        return
    future.set_exception(error)
    _ended(_mine.place)
    Event().wait()


def as_done(work: Callable[[K], T], items: Collection[K], threads: int) -> "Iterator[tuple[K, Future[T]]]":
    """`work` of each of `items`, begun in their order on up to `threads` other threads, on this one where there can be none. Yields each item
    when it is done; those that are not begun when nobody asks for more are left."""
    left, done = deque(items), SimpleQueue[tuple[K, "Future[T]"]]()

    def run() -> None:
        _mine.future = None
        while True:
            try:
                item = left.popleft()
            except IndexError:  # another thread has the last
                return
            future: Future[T] = Future()
            _do(partial(work, item), future)
            done.put((item, future))

    try:
        if not _several(run, min(threads, len(items))):
            run()
        for _ in items:
            yield done.get()
    finally:
        left.clear()


def _several(work: Callable[[], None], number: int) -> int:
    """`start`s `work` so many times, or as often as there can be another thread; returns how often."""
    for begun in range(number):
        try:
            start(work)
        except OSError as error:
            pass_on(error)
            return begun
    return number


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def _do(work: Callable[[], T], future: "Future[T]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _begun(place: object) -> None:
    with _changed:
        _running.add(place)


def _ended(place: object) -> None:
    with _changed:
        _running.discard(place)
        _changed.notify_all()


def _before_fork() -> None:
    _changed.acquire()
    _changed.wait_for(lambda: not _running)


@atexit.register
def _before_exit() -> None:
    with _changed:
        _changed.wait_for(lambda: not _running)


os.register_at_fork(before=_before_fork, after_in_parent=_changed.release, after_in_child=_changed.release)
