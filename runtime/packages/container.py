"""A package: one sequence of bytes with a description in JSON and named blobs. What the disk cache keeps and `bascule.aot_compile` writes.

Layout: a magic line, the SHA-256 of all that follows, the length of the description (8 bytes, little-endian), the description, the blobs one
after the other. Nothing of it is executed to read it.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

MAGIC = b"bascule package 1\n"
_DIGEST = 32
_HEAD = len(MAGIC) + _DIGEST
_BLOBS = "blobs"


class PackageError(Exception):
    """Bytes that are no package, or not all of one, or changed since it was written."""


def pack(description: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    """`description`: what JSON can say, without a key "blobs"."""
    sizes = [[name, len(blob)] for name, blob in blobs.items()]
    head = json.dumps({**description, _BLOBS: sizes}).encode()
    body = b"".join([len(head).to_bytes(8, "little"), head, *blobs.values()])
    return MAGIC + sha256(body).digest() + body


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The description and the blobs. Raises `PackageError` for anything but what `pack` made."""
    if not data.startswith(MAGIC):
        raise PackageError("not a package, or one of another version")
    body = data[_HEAD:]
    if sha256(body).digest() != data[len(MAGIC) : _HEAD]:
        raise PackageError("cut short or changed: the checksum differs")
    end = 8 + int.from_bytes(body[:8], "little")
    try:
        description = json.loads(body[8:end])
        sizes = {str(name): int(size) for name, size in description.pop(_BLOBS)}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PackageError("its description is none") from error
    if min(sizes.values(), default=0) < 0 or end + sum(sizes.values()) != len(body):
        raise PackageError("its blobs are not as long as it tells")
    blobs = {}
    for name, size in sizes.items():
        blobs[name] = body[end : end + size]
        end += size
    return description, blobs
