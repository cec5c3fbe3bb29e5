"""Entries in the memory of this process: what stands before the remote cache where nothing is kept on disk."""

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache
from secrets import token_bytes
from threading import Lock

from ..disk.files import Refused
from ..disk.signing import SIZE

LIMIT = 256 << 20  # bytes; what was used longest ago goes first


@dataclass
class _Memory:
    entries: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    bytes: int = 0
    lock: Lock = field(default_factory=Lock)


_memory = _Memory()


@dataclass(frozen=True)
class MemoryStore:
    """Entries of one `kind`: a `Store` that is gone with the process. It signs nothing."""

    kind: str

    def name(self, key: str) -> str:
        return f"{self.kind}/{key}"

    def signing_key(self) -> bytes:
        """For artifacts, which another process takes only with a secret of the user's."""
        return _signing_key()

    def read(self, key: str) -> bytes | None:
        with _memory.lock:
            content = _memory.entries.get(self.name(key))
            if content is not None:
                _memory.entries.move_to_end(self.name(key))
            return content

    def write(self, key: str, content: bytes) -> None:
        """Raises `Refused` for what is larger than all that may be kept."""
        if len(content) > LIMIT:
            raise Refused(f"an entry of {len(content):,} bytes is larger than the limit of {LIMIT:,}")
        with _memory.lock:
            _memory.bytes += len(content) - len(_memory.entries.pop(self.name(key), b""))
            _memory.entries[self.name(key)] = content
            while _memory.bytes > LIMIT:
                _memory.bytes -= len(_memory.entries.popitem(last=False)[1])


@cache
def _signing_key() -> bytes:
    return token_bytes(SIZE)


def forget() -> None:
    """Drops all entries."""
    with _memory.lock:
        _memory.entries.clear()
        _memory.bytes = 0
