"""Compiled kernels on disk, under `$BASCULE_CACHE_DIR` or `~/.cache/bascule`. An empty `BASCULE_CACHE_DIR` turns it off.

An entry is one file of plain data: a checksum of the rest, a line of JSON, the cubin. It is written under another name and renamed, so
that readers and concurrent writers see all of it or nothing; one that is cut short, altered, of another key, or that another user
may have written is not used. Whatever the file system refuses is the same as an empty cache.
"""

import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

VARIABLE = "BASCULE_CACHE_DIR"
FORMAT = 2  # of entries and of what a key covers
PLACE = re.compile(r'"(?:[^"\\]|\\.)*":\d+:\d+(?: to \d*:\d+)?')  # a location's file, line and column


@dataclass(frozen=True)
class MachineCode:
    """A compiled kernel.

    `entry` is its name in the cubin, `warps` and `shared` are what a launch gives a program (`shared`: dynamic shared memory, bytes),
    `location` is the user's line, `early` whether it may be started while what runs before it ends: see `early_start`.
    """

    cubin: bytes = field(repr=False)
    entry: str
    warps: int
    shared: int
    location: str
    early: bool = False


def key_of(ttir: str, **conditions: Any) -> str:
    """The key of what Triton makes of `ttir` under `conditions`: versions, architecture, options; whatever prints as JSON.

    It does not cover the lines of the user's source: one more line at the top of a file is no reason to compile all of it again. They are
    in the cubin for profilers, as they were when it was made.
    """
    text = json.dumps({"format": FORMAT, **conditions}, sort_keys=True)
    return sha256(f"{text}\n{PLACE.sub('', ttir)}".encode()).hexdigest()


@dataclass(frozen=True)
class KernelCache:
    """Entries by key, in a folder that need not exist. Without a folder it keeps nothing."""

    folder: Path | None

    @staticmethod
    def default() -> "KernelCache":
        """The user's cache, as the environment says now."""
        place = os.environ.get(VARIABLE)
        if place == "":
            return KernelCache(None)
        if place is not None:
            return KernelCache(Path(place) / "kernels")
        try:
            return KernelCache(Path.home() / ".cache" / "bascule" / "kernels")
        except RuntimeError:  # there is no home directory
            return KernelCache(None)

    def _path(self, key: str) -> Path | None:
        return self.folder and self.folder / key[:2] / key

    def get(self, key: str) -> MachineCode | None:
        """The kernel of `key`, or None."""
        path = self._path(key)
        if path is None:
            return None
        try:
            # Else who opens a pipe waits for its writer.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                others = status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                if others or not stat.S_ISREG(status.st_mode):
                    return None
                content = file.read()
            with suppress(OSError):
                os.utime(path)  # what was used last is dropped last
        except OSError:
            return None
        checksum, _, rest = content.partition(b"\n")
        if checksum != sha256(rest).hexdigest().encode():
            return None
        header, _, cubin = rest.partition(b"\n")
        try:
            values = json.loads(header)
            return MachineCode(cubin, **values) if values.pop("key") == key else None
        except (ValueError, KeyError, TypeError, AttributeError):  # whole, but no entry of ours
            return None

    def put(self, key: str, code: MachineCode) -> None:
        """Keeps `code`, if the file system lets it."""
        path = self._path(key)
        if path is None:
            return
        values = {name: value for name, value in asdict(code).items() if name != "cubin"}
        rest = json.dumps({"key": key, **values}).encode() + b"\n" + code.cubin
        unfinished = path.with_name(f".{key}.{uuid4().hex}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(sha256(rest).hexdigest().encode() + b"\n" + rest)
            os.replace(unfinished, path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
