"""The form of an entry of either cache: a package (`runtime/packages/container.py`) that says its own key.

Refused ones count, and are as if they were not there. Nothing here needs a compiler.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bascule.runtime.kernels.elf_loader import ObjectCodeError
from bascule.runtime.packages.container import PackageError, pack, unpack

from ..dialect.interrupts import pass_on
from ..reporting.counters import count
from .artifacts import COUNTERS, record
from .disk.files import Refused
from .disk.store import Store


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


def opened(store: Store, key: str) -> tuple[dict[str, Any], dict[str, bytes], bytes] | None:
    """The description, the blobs and the bytes of an entry; None if there is none. Raises `Refused` or `PackageError`."""
    content = store.read(key)
    if content is None:
        return None
    description, blobs = unpack(content)
    if description["key"] != key:
        raise PackageError("the entry of another graph")
    return description, blobs, content


def write(store: Store, key: str, description: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bool:
    """Keeps an entry; False, and a counted reason, where the disk does not take it."""
    content, counter = pack({"key": key, **description}, blobs), COUNTERS[store.kind]
    try:
        store.write(key, content)
    except Refused as reason:
        count(counter, f"refused: {reason}")
        return False
    count(counter, "stored")
    record(store, key, content)
    return True
