"""How a remote cache is read and written, whatever keeps it."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Unreachable(Exception):
    """Nothing answers at the address: neither reading nor writing will do."""


class Client(Protocol):
    """Safe to call from several threads. What goes wrong is raised, as whatever it is, or as `Unreachable`."""

    def get(self, names: Sequence[str], most: int) -> list[bytes | None]:
        """The first `most` bytes under each name, None where there is nothing: one round trip."""
        ...

    def put(self, entries: Mapping[str, bytes], life: int) -> None:
        """Writes them, each whole or not at all where the server can do that; after `life` seconds they may be deleted."""
        ...
