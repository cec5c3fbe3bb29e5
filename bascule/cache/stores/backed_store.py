"""Where entries of a kind are kept: on this machine, on disk or else in memory, and behind that in the remote cache, if there is one.

What is missing here is asked for there, and what comes from there is kept here. Without a remote cache this is the disk's store.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...reporting.counters import count
from ..disk import directory
from ..disk.files import Refused
from ..disk.store import Store
from ..remote.settings import settings
from .process_memory import Memory, MemoryStore
from .recorded import record

if TYPE_CHECKING:
    from ..remote.remote_cache import RemoteCache


@dataclass(frozen=True)
class BackedStore:
    local: Store | MemoryStore
    remote: "RemoteCache | None" = None

    @property
    def kind(self) -> str:
        return self.local.kind

    def here(self, key: str) -> bytes | None:
        """The entry that this machine has; None if there is none. Raises `Refused` for one that cannot be read, or is not this user's, unless
        there is a remote cache to ask."""
        try:
            return self.local.read(key)
        except Refused as reason:
            if self.remote is None:
                raise
            count("cache", f"refused: {reason}")
            return None

    def read(self, key: str) -> bytes | None:
        """The entry that this machine has, or else the remote cache, in one round trip. Raises `Refused` as `here` does."""
        content = self.here(key)
        return content if content is not None else self._fetched([key]).get(key)

    def write(self, key: str, content: bytes) -> None:
        """Keeps `content` under `key`, here and in the remote cache. Raises `Refused` if that cannot be done here; nothing is left then."""
        try:
            self.local.write(key, content)
        finally:
            if self.remote is not None:
                self.remote.put(self.kind, key, lambda: content)

    def keep(self, key: str, content: bytes) -> None:
        """Keeps `content` here; what is refused counts."""
        try:
            self.local.write(key, content)
        except Refused as reason:
            count("cache", f"refused: {reason}")

    def find(self, keys: Collection[str]) -> dict[str, bytes]:
        """The entries under `keys` that there are, here or else in the remote cache, in one round trip; what is refused counts, and is as if it
        were not there."""
        found = {key: content for key in keys if (content := self._here_or_counted(key)) is not None}
        missing = [key for key in keys if key not in found]
        found |= self._fetched(missing) if missing else {}
        for key, content in found.items():
            record(self.local, key, content)
        return found

    def put(self, key: str, content: bytes) -> None:
        """`write`, where what is refused counts and is not kept."""
        try:
            self.write(key, content)
        except Refused as reason:
            count("cache", f"refused: {reason}")
        else:
            record(self.local, key, content)

    def _here_or_counted(self, key: str) -> bytes | None:
        try:
            return self.here(key)
        except Refused as reason:
            count("cache", f"refused: {reason}")
            return None

    def _fetched(self, keys: list[str]) -> dict[str, bytes]:
        found = {} if self.remote is None else self.remote.get(self.kind, keys)
        for key, content in found.items():
            self.keep(key, content)
        return found


_collecting: ContextVar[Mapping[str, Memory]] = ContextVar("collecting", default={})  # noqa: B039


@contextmanager
def collecting(*kinds: str) -> Iterator[MemoryStore]:
    """Inside, in this thread, entries of `kinds` are kept in memory of their own, without a bound, and looked for there alone. Gives the store
    of the first kind."""
    memory = Memory(limit=sys.maxsize)
    token = _collecting.set(dict.fromkeys(kinds, memory))
    try:
        yield MemoryStore(kinds[0], memory)
    finally:
        _collecting.reset(token)


def store_of(kind: str) -> BackedStore | None:
    """The store of `kind`, one of `KINDS`; None if there is neither a cache on disk nor a remote one."""
    collected = _collecting.get().get(kind)
    if collected is not None:
        return BackedStore(MemoryStore(kind, collected))
    local, remote = directory.store_of(kind), None
    if settings() is not None:
        from ..remote.remote_cache import remote_cache

        remote = remote_cache()
    if local is None and remote is None:
        return None
    return BackedStore(local or MemoryStore(kind), remote)
