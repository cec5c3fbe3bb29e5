"""A line on the terminal while a compile takes long: the graph, the stage or pass at work, how many kernels are done, the seconds.

It is drawn on the standard error, where that is a terminal, and wiped off before what waits for the compile goes on. Compiles in other threads
than the main one hold nobody up, and have no line.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from shutil import get_terminal_size
from threading import Event, Thread, current_thread, main_thread
from time import perf_counter
from typing import TextIO

from ..dialect.interrupts import pass_on
from .compile_record import Record

AFTER = 2.0  # seconds of a compile before it has a line
EVERY = 0.2  # seconds from one drawing to the next
WIPE = "\r\x1b[K"

_compiles: ContextVar[list[Record] | None] = ContextVar("compiles", default=None)  # the innermost is the last


@contextmanager
def shown(record: Record) -> Iterator[None]:
    """Has the line tell of `record` meanwhile."""
    around = _compiles.get()
    if around is not None:
        around.append(record)
        try:
            yield
        finally:
            around.pop()
    elif current_thread() is main_thread() and _is_terminal(sys.stderr):
        with _drawn([record], sys.stderr):
            yield
    else:
        yield


def _is_terminal(stream: TextIO) -> bool:
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _drawn(compiles: list[Record], stream: TextIO) -> Iterator[None]:
    ended, token = Event(), _compiles.set(compiles)
    thread = Thread(target=_draw, args=(compiles, ended, stream), name="bascule-progress", daemon=True)
    try:
        _begin(thread)
        yield
    finally:
        ended.set()
        _compiles.reset(token)
        if thread.ident is not None:
            thread.join()


def _begin(thread: Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # there are as many threads as there may be: who compiles goes without the line
        pass_on(error)


def _draw(compiles: list[Record], ended: Event, stream: TextIO) -> None:
    start, wait, drawn = perf_counter(), AFTER, False
    while not ended.wait(wait):
        text = _text(compiles[-1], perf_counter() - start)[: get_terminal_size().columns - 1]
        stream.write(f"{WIPE}{text}")
        stream.flush()
        wait, drawn = EVERY, True
    if drawn:
        stream.write(WIPE)
        stream.flush()


def _text(record: Record, seconds: float) -> str:
    done, kernels = record.kernels_done() if record.kernels_done is not None else (0, 0)
    counted = f", {done} of {kernels} kernels" if kernels else ""
    return f"bascule: {record.name}: {record.running or 'begins'}{counted}, {seconds:.0f} s"
