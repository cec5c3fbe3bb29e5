"""The remote cache of this process: what it is asked costs one time-out at most, and never an exception.

Counted among `cache`: `remote hit` (entries that were found), `remote miss` (look-ups that found none), `remote stored`, `remote time-out`,
`remote paused` (look-ups that were not made because one before had failed); with the reason `remote refused`, `remote failed` and
`remote not stored`.
"""

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from threading import Lock, Thread
from typing import TypeVar

from ...dialect.interrupts import pass_on
from ...errors import CacheWarning
from ...reporting.counters import count
from ..disk.files import Refused
from .client import Client, Unreachable
from .envelope import HEAD, sealed, unsealed
from .settings import VARIABLE, Settings, settings
from .writer import Task, Writer

PAUSE, LONGEST = 300.0, 3600.0  # seconds without a try after a failure; twice as long after each that follows
READING, WRITING = "reading", "writing"
REDIS = ("redis://", "rediss://", "unix://")

T = TypeVar("T")


def remote_cache() -> "RemoteCache | None":
    """The one that the environment names; None without one, or without the secret for it."""
    found = settings()
    return None if found is None else _made(found)


@cache
def _made(found: Settings) -> "RemoteCache":
    return RemoteCache(found)


os.register_at_fork(after_in_child=lambda: _made.cache_clear())  # threads and connections stay with the parent


class RemoteCache:
    def __init__(self, settings: Settings):
        self.settings = settings
        self._writer = Writer(self._write, settings.timeout)
        self._making = Lock()
        self._client: Client | None = None
        self._paused_until = dict.fromkeys((READING, WRITING), 0.0)
        self._pause = PAUSE
        self._warning: str | None = None  # that the user has still to be told
        self._told = False

    def get(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The content of those entries that are there, that who has the secret has signed, and that are neither too old nor too large."""
        if time.monotonic() < self._paused_until[READING]:
            count("cache", "remote paused")
            return {}
        names = [f"{kind}/{key}" for key in keys]
        most = self.settings.limit + HEAD + 1
        try:
            client = self._connected()
            found = _within(self.settings.timeout, lambda: client.get(names, most))
        except Exception as error:
            pass_on(error)
            self._failed(READING, error)
            self._tell()
            return {}
        self._pause = PAUSE
        entries = {key: self._opened(name, entry) for key, name, entry in zip(keys, names, found) if entry is not None}
        contents = {key: content for key, content in entries.items() if content is not None}
        count("cache", *(("remote hit", len(contents)) if contents else ("remote miss", 1)))
        return contents

    def put(self, kind: str, key: str, make: Callable[[], bytes | None]) -> None:
        """Writes an entry beside the program: see `Task`."""
        self._tell()
        if time.monotonic() >= self._paused_until[WRITING] and not self._writer.add(Task(f"{kind}/{key}", make)):
            count("cache", "remote not stored: too many entries wait, or there is no thread to write them")

    def flush(self) -> bool:
        """Waits until what was put is written, as the end of the process does; False if that takes too long."""
        done = self._writer.flush()
        self._tell()
        return done

    def _opened(self, name: str, entry: bytes) -> bytes | None:
        try:
            if len(entry) > self.settings.limit + HEAD:
                raise Refused(f"it is larger than {self.settings.limit:,} bytes")
            return unsealed(self.settings.key, name, entry, time.time(), self.settings.life)
        except Refused as reason:
            count("cache", f"remote refused: {reason}")
            return None

    def _write(self, contents: Mapping[str, bytes]) -> None:
        small = {name: content for name, content in contents.items() if len(content) <= self.settings.limit}
        if len(small) < len(contents):
            reason = f"remote not stored: larger than {self.settings.limit:,} bytes"
            count("cache", reason, len(contents) - len(small))
        if not small or time.monotonic() < self._paused_until[WRITING]:
            return
        now = time.time()
        try:
            entries = {name: sealed(self.settings.key, name, content, now) for name, content in small.items()}
            self._connected().put(entries, self.settings.life)
        except Exception as error:  # in a thread of ours, which no signal's handler interrupts
            pass_on(error)
            self._failed(WRITING, error)
        else:
            count("cache", "remote stored", len(small))

    def _connected(self) -> Client:
        with self._making:
            if self._client is None:
                self._client = _client_of(self.settings)
            return self._client

    def _failed(self, doing: str, error: Exception) -> None:
        """Counts, has a warning the first time, and leaves the server alone for a while; what cannot be written may be read all the same."""
        text = " ".join(str(error).split()).rstrip(".").replace(self.settings.address, self.settings.shown)
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        late = isinstance(error, TimeoutError) or "timeout" in text.lower() or "timed out" in text.lower()
        count("cache", "remote time-out" if late else f"remote failed: {reason}")
        until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST)
        for each in (READING, WRITING):
            if each == doing or doing == READING or isinstance(error, Unreachable):
                self._paused_until[each] = until
        if self._told:
            return
        self._told = True
        if isinstance(error, ImportError):
            reason += "; `pip install 'bascule[remote]'` has redis-py and fsspec, an object store may need more"
        elif late:
            reason = f"no answer in {self.settings.timeout:g} s"
        self._warning = (
            f"the remote cache '{self.settings.shown}' is not used for a while, {doing} failed: {reason}. What it may have is compiled here. "
            f"{VARIABLE}, empty, turns it off"
        )

    def _tell(self) -> None:
        """Warns, in the thread of who compiles, of what failed in whatever thread."""
        warning, self._warning = self._warning, None
        if warning is not None:
            warnings.warn(warning, CacheWarning, stacklevel=2)


def _client_of(settings: Settings) -> Client:
    """Raises `ImportError` for a library that is not installed, and `ValueError` for an address that none knows."""
    if settings.address.startswith(REDIS):
        from .redis_client import RedisClient

        return RedisClient(settings.address, settings.timeout)
    from .fsspec_client import FsspecClient

    return FsspecClient(settings.address, settings.life)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """`call()`, by another thread, which is left alone after `seconds`. Raises what it raises, and `TimeoutError`."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # raised again by who waits
            done.set_exception(error)

    Thread(target=run, name="bascule remote cache, reading", daemon=True).start()
    return done.result(seconds)
