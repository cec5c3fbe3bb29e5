"""Entries go to the remote cache beside the program, by one thread, in the order in which they came."""

import atexit
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic

from ...dialect.interrupts import pass_on
from ...reporting.counters import count

PENDING = 4096  # entries that may wait; more are left out
TOGETHER = 32  # entries that are written in one round trip


@dataclass(frozen=True)
class Task:
    """An entry to write: `make` gives its content, or None as long as something is not there that belongs to it; it is asked again when there
    is something else to write."""

    name: str
    make: Callable[[], bytes | None]


class Writer:
    """`write` takes entries by name, and raises nothing."""

    def __init__(self, write: Callable[[Mapping[str, bytes]], None], seconds: float):
        """`seconds`: how long the end of the process may wait for what is left."""
        self._write, self._seconds = write, seconds
        self._queue: deque[Task] = deque()
        self._waiting: list[Task] = []  # for something that is not there yet, if it ever will be
        self._changed = Condition()
        self._thread: Thread | None = None
        self._busy = False
        self._process = os.getpid()

    def add(self, task: Task) -> bool:
        """False if it is not taken: too many wait already, or there is no thread to write it."""
        if self._process != os.getpid():  # a fork: the thread, and maybe the lock, stayed with its parent
            return False
        with self._changed:
            if len(self._queue) + len(self._waiting) >= PENDING:
                return False
            if self._thread is None and not self._started():
                return False
            self._queue.append(task)
            self._changed.notify_all()
        return True

    def _started(self) -> bool:
        thread = Thread(target=self._run, name="bascule remote cache", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the process ends, or has as many threads as it may
            pass_on(error)
            return False
        self._thread = thread
        atexit.register(self.flush)
        return True

    def flush(self) -> bool:
        """Waits until all is written that is ready; False if it takes longer than the process may wait."""
        if self._process != os.getpid():  # what waits is the parent's
            return True
        end = monotonic() + self._seconds
        with self._changed:
            while self._queue or self._busy:
                if not self._changed.wait(end - monotonic()):
                    return False
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                tasks = [*self._waiting, *(self._queue.popleft() for _ in range(min(TOGETHER, len(self._queue))))]
                self._waiting, self._busy = [], True
            made = {task: _made(task) for task in tasks}
            entries = {task.name: content for task, content in made.items() if content}
            if entries:
                self._write(entries)
            with self._changed:
                self._waiting += [task for task, content in made.items() if content is None]
                self._busy = False
                self._changed.notify_all()


def _made(task: Task) -> bytes | None:
    try:
        return task.make()
    except Exception as error:  # else nothing more is written
        pass_on(error)
        count("cache", f"remote not stored: {type(error).__name__}: {error}")
        return b""
