"""The thread that compiles beside the program: one for the process, a graph after the other.

It begins when a graph is called for the second time, for the first step is over then, or when nothing has happened for a while. Between two
passes, at a `checkpoint`, it may be interrupted: by a fork, for which it stands still, and by the end of the process, which it does not hold up.
What passes do holds Python's lock, which PyTorch's operators give up and want back at every call. A waiting thread asks for it after the
interpreter's switch interval, so that this is short while the thread works.
"""

import atexit
import os
import sys
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock, Thread, current_thread
from time import monotonic

from bascule.dialect.interrupts import pass_on
from bascule.dialect.roomy_threads import begin as begin_thread
from bascule.lowering import threads  # noqa: F401  (what it does before a fork comes after what is done here: it waits for threads this one started)

IDLE = 2.0  # seconds without a graph that is compiled or called for the first time, after which the work begins
SWITCH = 2e-4  # seconds that a thread waits for Python's lock before it asks for it

Work = Callable[[], None]


class Abandoned(BaseException):
    """The process ends, or has forked and this is the child: nobody waits for the work."""


_changed = Condition()
_queue: deque[Work] = deque()
_thread: Thread | None = None
_working = False  # on something taken from the queue
_wanted = False  # the queue is to be worked off
_since = 0.0  # when something last happened
_ending = False
_standing = Lock()  # held by the thread while it works, but not at checkpoints
_turnstile = (
    Lock()
)  # held by who waits for `_standing`: the thread lets it pass, where a lock that is released goes to who asks first


def enqueue(work: Work) -> None:
    """`work` is done by the thread, after what it was given before, or here where there can be no thread. It raises nothing."""
    global _since
    with _changed:
        _since = monotonic()
        started = _started()
        if started:
            _queue.append(work)
            _changed.notify_all()
    if not started:
        _do(work)


def _started() -> bool:
    """Whether there is a thread now."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = Thread(target=_run, name="bascule-tiers", daemon=True)
        try:
            begin_thread(_thread)
        except BaseException as error:
            if _thread.ident is None:
                _thread = None
            if not isinstance(error, RuntimeError):  # of a signal's handler
                raise
            pass_on(error)  # else the process ends, or has as many threads as it may
    return _thread is not None


def begin() -> None:
    """The work is wanted now."""
    global _wanted
    if not _wanted:
        with _changed:
            _wanted = True
            _changed.notify_all()


def wait_for_kernels(timeout: float | None = None) -> bool:
    """Waits until all is compiled that is compiled beside the program (the option `tiers`): the next call of each graph runs its kernels.

    Returns whether that is so, after `timeout` seconds at most.
    """
    begin()
    with _changed:
        return _changed.wait_for(lambda: not (_queue or _working), timeout)


def checkpoint() -> None:
    """In the thread: here it may be interrupted."""
    if current_thread() is not _thread:
        return
    if _turnstile.locked():
        _standing.release()
        with _turnstile:
            _standing.acquire()
    if _ending:
        raise Abandoned


def _run() -> None:
    while True:
        work = _next()
        if work is None:
            return
        _do(work)


def _next() -> Work | None:
    """The next work, once it is wanted; None at the end of the process."""
    global _working, _wanted
    with _changed:
        while (
            not _ending and current_thread() is _thread
        ):  # else a signal ended the wait for this one, and there is another
            left = _since + IDLE - monotonic()
            if _queue and (_wanted or left <= 0):
                _working = True
                return _queue.popleft()
            if not _queue:
                _wanted = False
            _changed.wait(left if _queue else None)
    return None


def _do(work: Work) -> None:
    global _working
    interval = sys.getswitchinterval()
    sys.setswitchinterval(min(interval, SWITCH))
    try:
        with _standing:
            work()
    except Abandoned:
        pass
    finally:
        sys.setswitchinterval(interval)
        with _changed:
            _working = False
            _changed.notify_all()


@atexit.register
def _end() -> None:
    global _ending
    with _changed:
        _ending = True
        _queue.clear()
        _changed.notify_all()
        _changed.wait_for(lambda: not _working)


def _before_fork() -> None:
    _turnstile.acquire()
    _standing.acquire()


def _in_parent() -> None:
    _standing.release()
    _turnstile.release()


def _in_child() -> None:
    """The child has no such thread: what it was at runs by PyTorch's operators there, and what comes is compiled by one of its own."""
    global _thread, _working, _wanted, _changed, _standing, _turnstile
    _queue.clear()
    _thread, _working, _wanted = None, False, False
    _changed, _standing, _turnstile = Condition(), Lock(), Lock()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
