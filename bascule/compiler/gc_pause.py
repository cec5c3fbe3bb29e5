"""Python's cyclic garbage collector, paused while graphs are compiled.

A collection visits every object of the process, PyTorch's and the model's included, and compiling makes enough objects for
several: a quarter of the time of a small model's first step. What compiling leaves in cycles is collected afterwards, among what was made
meanwhile. With so much of it, the collector's own rule would be to visit everything there is, at one of the next objects that are made, and to
find nothing: such a full collection is put off until ten more of younger objects were made, as after a full one. The next is not, so that what
compiles again and again leaves no more than twice as much.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = 0  # compiles in progress, in all threads
_resume = False  # whether the collector was on when the first of them began
_put_off = -1  # how many full collections there had been when the next one was put off


def pause() -> None:
    """No automatic collection until `resume` was called as often."""
    global _pauses, _resume
    with _lock:
        if _pauses == 0:
            _resume = gc.isenabled()
            gc.disable()
        _pauses += 1


def resume() -> None:
    """After the last of those that paused the collector it is as it was before the first."""
    global _pauses
    with _lock:
        _pauses -= 1
        if _pauses == 0 and _resume:
            gc.enable()  # first: whoever interrupts the collection finds it on
            gc.collect(1)
            _put_off_full_collection()


def _put_off_full_collection() -> None:
    """Sets the collector's counts to zero, once between two full collections."""
    global _put_off
    full = gc.get_stats()[2]["collections"]
    if full != _put_off and gc.get_freeze_count() == 0:  # what the program froze is not to be thawed
        _put_off = full
        gc.freeze()
        gc.unfreeze()


@contextmanager
def collections_paused() -> Iterator[None]:
    """No automatic collection inside; afterwards the collector is as it was. May be nested, and entered by several threads."""
    pause()
    try:
        yield
    finally:
        resume()
