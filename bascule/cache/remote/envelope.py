"""An entry as the remote cache has it: its content and when it was written, signed for its name with the secret of those who share the cache."""

from ..disk.files import Refused
from ..disk.signing import HEAD as SIGNED
from ..disk.signing import signed, verified

_TIME = 8  # bytes, at the begin of what is signed: seconds since 1970
HEAD = SIGNED + _TIME  # bytes before the content
VERSION = "remote 1"  # a part of what is signed: entries of a disk, and artifacts, are none of these


def sealed(key: bytes, name: str, content: bytes, now: float) -> bytes:
    return signed(key, f"{VERSION}/{name}", int(now).to_bytes(_TIME, "little") + content)


def unsealed(key: bytes, name: str, entry: bytes, now: float, life: int) -> bytes:
    """The content of what `sealed` made with the same key and name, less than `life` seconds ago. Raises `Refused`."""
    content = verified(key, f"{VERSION}/{name}", entry)
    if len(content) < _TIME:
        raise Refused("it does not say when it was written")
    if now - int.from_bytes(content[:_TIME], "little") > life:
        raise Refused("it is too old")
    return content[_TIME:]
