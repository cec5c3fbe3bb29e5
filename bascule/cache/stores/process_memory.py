"""Entries in the memory of this process: what stands before the remote cache where nothing is kept on disk."""

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from ..disk.files import Refused

LIMIT = 256 << 20  # bytes; what was used longest ago goes first


@dataclass
class Memory:
    """Entries of all kinds, by name."""

    entries: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    bytes: int = 0
    limit: int = LIMIT
    lock: Lock = field(default_factory=Lock)


_memory = Memory()


@dataclass(frozen=True)
class MemoryStore:
    """Entries of one `kind`: a `Store` that is gone with the process. It signs nothing."""

    kind: str
    memory: Memory = field(default_factory=lambda: _memory)

    def name(self, key: str) -> str:
        return f"{self.kind}/{key}"

    def signing_key(self) -> bytes:
        """Raises `Refused`: no other process could check what it signs."""
        raise Refused("entries in memory are not signed")

    def read(self, key: str) -> bytes | None:
        with self.memory.lock:
            content = self.memory.entries.get(self.name(key))
            if content is not None:
                self.memory.entries.move_to_end(self.name(key))
            return content

    def write(self, key: str, content: bytes) -> None:
        """Raises `Refused` for what is larger than all that may be kept."""
        if len(content) > self.memory.limit:
            raise Refused(f"an entry of {len(content):,} bytes is larger than the limit of {self.memory.limit:,}")
        with self.memory.lock:
            self.memory.bytes += len(content) - len(self.memory.entries.pop(self.name(key), b""))
            self.memory.entries[self.name(key)] = content
            while self.memory.bytes > self.memory.limit:
                self.memory.bytes -= len(self.memory.entries.popitem(last=False)[1])


def forget() -> None:
    """Drops all entries."""
    with _memory.lock:
        _memory.entries.clear()
        _memory.bytes = 0
