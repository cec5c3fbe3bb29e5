"""Where what was compiled is kept on disk: `$BASCULE_CACHE_DIR` or `~/.cache/bascule`; an empty variable turns the cache off.

`traces`: what AOTAutograd came to for graphs of Dynamo's; `graphs`: the compiled graphs; `kernels`: kernels for a GPU;
`schedules`: what `max_autotune` has measured.

What is loaded from there runs as code, so only files count that are the user's own and that nobody else can write. A file is written under
another name and renamed: readers and concurrent writers see all of it or nothing.
"""

import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

VARIABLE, LIMIT_VARIABLE = "BASCULE_CACHE_DIR", "BASCULE_CACHE_LIMIT"
TRACES, GRAPHS, KERNELS, SCHEDULES = FOLDERS = ("traces", "graphs", "kernels", "schedules")  # under the root
_KEY = re.compile(r"[0-9a-f]{64}")  # nothing that leads out of a folder
_OWN = re.compile(r"([0-9a-f]{64})|\.([0-9a-f]{64})\.[0-9a-f]{32}")  # an entry, or one that is not finished
LIMIT = 2 << 30  # bytes that all of them may take


class Refused(Exception):
    """The file system, or who may write there, does not allow what was asked; the text says why."""


def root() -> Path | None:
    """The folder of all caches, as the environment says now; None if they are off."""
    place = os.environ.get(VARIABLE)
    if place is not None:
        return Path(place) if place else None
    try:
        return Path.home() / ".cache" / "bascule"
    except RuntimeError:  # there is no home directory
        return None


@dataclass(frozen=True)
class Directory:
    """Files by key under `folder`, which need not exist."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def read(self, key: str) -> bytes | None:
        """The bytes kept under `key`, or None. Raises `Refused` for a file that others could have written."""
        try:
            # Else who opens a pipe waits for its writer.
            descriptor = os.open(self.path(key), os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise Refused("what is there is no file")
                _check(status, "a file")
                content = file.read()
            with suppress(OSError):
                os.utime(self.path(key))  # what was used last is dropped last
            return content
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"reading failed: {error.strerror}") from error

    def write(self, key: str, content: bytes) -> None:
        """Keeps `content` under `key`. Raises `Refused` if that cannot be done; nothing is left then."""
        if not _KEY.fullmatch(key):
            raise Refused("no key of an entry")
        path = self.path(key)
        unfinished = path.with_name(f".{key}.{uuid4().hex}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.folder, path.parent):
                _check(os.stat(folder), "the directory")
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(unfinished, path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise Refused(f"writing failed: {error.strerror}") from error

    def files(self) -> Iterator[Path]:
        """The entries, unfinished ones included; no other files, which a folder of this name may have elsewhere."""
        for path in self.folder.glob("??/*"):
            own = _OWN.fullmatch(path.name)
            if own is not None and (own[1] or own[2]).startswith(path.parent.name) and path.is_file():
                yield path

    def size(self) -> tuple[int, int]:
        """The number of files and their bytes."""
        sizes = []
        for path in self.files():
            with suppress(OSError):
                sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def clear(self) -> int:
        """Deletes every entry; returns how many there were."""
        number = 0
        for path in list(self.files()):
            with suppress(OSError):
                path.unlink()
                number += 1
        return number


def trim(folder: Path, limit: int) -> None:
    """Deletes the files under `folder` used longest ago until three quarters of `limit` bytes are left, if there are more than `limit`."""
    found = []
    for name in FOLDERS:
        for path in Directory(folder / name).files():
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found):
        if total <= limit * 3 // 4:
            break
        with suppress(OSError):
            path.unlink()
            total -= size


_stored = 0


def trim_now_and_then() -> None:
    """Called after each entry that is stored: looks after the size of the caches, which takes as long as there are entries."""
    global _stored
    _stored += 1
    folder = root()
    if _stored % 100 == 1 and folder is not None:
        trim(folder, limit())


def limit() -> int:
    """How many bytes all caches together may take: `$BASCULE_CACHE_LIMIT` or 2 GiB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    if text and not text.isdigit():
        _unread(text)
    return int(text) if text.isdigit() else LIMIT


@cache
def _unread(text: str) -> None:
    warnings.warn(f"${LIMIT_VARIABLE} is '{text}', which is no number of bytes: {LIMIT} it is", stacklevel=2)


def _check(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.getuid():
        raise Refused(f"{what} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused(f"{what} can be written by others")


def statistics() -> dict[str, Any]:
    """The folder, and the entries and bytes of each cache under it."""
    folder = root()
    found: dict[str, Any] = {"directory": None if folder is None else str(folder)}
    if folder is not None:
        for name in FOLDERS:
            entries, size = Directory(folder / name).size()
            found[name] = {"entries": entries, "bytes": size}
    return found


def clear() -> int:
    """Deletes all entries of all caches; returns how many there were."""
    folder = root()
    return 0 if folder is None else sum(Directory(folder / name).clear() for name in FOLDERS)
