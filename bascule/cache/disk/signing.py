"""Entries are code: wrappers, machine code, pickled metadata. What is loaded is signed with a key that only this user knows.

The key lies in the cache directory, readable by its owner alone, and is made when it is first needed. Who carries entries to another machine
signs with a secret of their own: `bascule/cache/artifacts.py`.
"""

import hmac
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes

from ...dialect.interrupts import tolerating
from .files import Refused, Unusable, own_folder, read_file, write_file

FOLDER = "signing"  # under the root of the caches
MAGIC = b"bascule entry 1\n"
SIZE = 32  # bytes of a key, and of a signature
HEAD = len(MAGIC) + SIZE  # bytes before the content


def key_of(root: Path) -> bytes:
    """The key of the caches under `root`. Raises `OSError`, and `Unusable` for one that others could have read or written."""
    path = root / FOLDER / "key"
    own_folder(path.parent)
    found = _read(path)
    if found is None:
        with tolerating(OSError):  # another process made it, or there are no hard links
            write_file(path, token_bytes(SIZE), over=False)
        found = _read(path)
    if found is None or len(found) != SIZE:  # cut short: what it has signed is lost
        write_file(path, token_bytes(SIZE))
        found = _read(path)
    if found is None or len(found) != SIZE:
        raise Unusable("the key of its entries does not stay")
    return found


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path, private=True)
    except Refused as reason:
        raise Unusable(f"the key of its entries, {path}: {reason}") from reason


def signed(key: bytes, name: str, content: bytes) -> bytes:
    """`content` as what `name` says, and nothing else, may be loaded from."""
    return b"".join([MAGIC, _signature(key, name, content), content])


def verified(key: bytes, name: str, entry: bytes) -> bytes:
    """The content of what `signed` made with the same key and name. Raises `Refused`."""
    content = content_of(entry)
    if not hmac.compare_digest(entry[len(MAGIC) : HEAD], _signature(key, name, content)):
        raise Refused("the signature differs: cut short, changed, of another entry or of another key")
    return content


def content_of(entry: bytes) -> bytes:
    """The content, whoever signed it. Raises `Refused`."""
    if not entry.startswith(MAGIC) or len(entry) < HEAD:
        raise Refused("not an entry, or one of another version")
    return entry[HEAD:]


def _signature(key: bytes, name: str, content: bytes) -> bytes:
    signature = hmac.new(key, f"{name}\n".encode(), sha256)
    signature.update(content)
    return signature.digest()
