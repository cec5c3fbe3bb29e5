"""The form of an entry of either cache: a package (`runtime/packages/container.py`) that says its own key.

Refused ones count, and are as if they were not there. Nothing here needs a compiler.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bascule.runtime.kernels.elf_loader import ObjectCodeError
from bascule.runtime.packages.container import PackageError, unpack

from ..dialect.interrupts import pass_on
from ..reporting.counters import count
from .disk.files import Refused
from .stores.backed_store import BackedStore
from .stores.recorded import record

COUNTERS = {
    "graphs": "cache",
    "traces": "traces",
    "kernels": "cache",
    "schedules": "cache",
}  # kind -> where what happens is counted


@contextmanager
def refusing(counter: str, *but: type[Exception]) -> Iterator[None]:
    """Counts among `counter`, and swallows, whatever reading an entry meets `but` these: the graph can be compiled."""
    try:
        yield
    except but:
        raise
    except (Refused, PackageError, ObjectCodeError) as reason:
        count(counter, f"refused: {reason}")
    except Exception as reason:  # of what is no entry of ours, or of what the driver does not take
        pass_on(reason)
        count(counter, f"refused: {type(reason).__name__}: {reason}")


def opened(key: str, content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The description and the blobs of the entry `content`, which was kept under `key`. Raises `PackageError`."""
    description, blobs = unpack(content)
    if description["key"] != key:
        raise PackageError("the entry of another graph")
    return description, blobs


def write(store: BackedStore, key: str, content: bytes) -> bool:
    """Keeps an entry; False, and a counted reason, where this machine does not take it."""
    counter = COUNTERS[store.kind]
    try:
        store.write(key, content)
    except Refused as reason:
        count(counter, f"refused: {reason}")
        return False
    count(counter, "stored")
    record(store.local, key, content)
    return True
