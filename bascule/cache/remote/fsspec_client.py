"""Entries as files of a shared directory, or objects of a store that fsspec knows: `graphs/ab/ab12..` below the address."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ...dialect.interrupts import tolerating

_OURS = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.[0-9a-f]{32}")  # a file, whole or not finished


class FsspecClient:
    """`life`: seconds after which files of a directory are deleted; an object store has rules of its own for that."""

    def __init__(self, address: str, life: int):
        self._files, self._root = fsspec.core.url_to_fs(address)
        self._life = life
        self._swept: set[str] = set()  # folders in which this process has looked for what is too old

    def get(self, names: Sequence[str], most: int) -> list[bytes | None]:
        paths = [self._path(name) for name in names]
        found = self._files.cat_ranges(paths, [0] * len(paths), [most] * len(paths), on_error="return")
        return [*map(_read, found)]

    def put(self, entries: Mapping[str, bytes], life: int) -> None:
        files = {self._path(name): content for name, content in entries.items()}
        if not isinstance(self._files, LocalFileSystem):
            self._files.pipe(files)
            return
        for path, content in files.items():
            self._place(path, content)
            self._sweep(path)

    def _path(self, name: str) -> str:
        kind, key = name.split("/")
        return "/".join([self._root.rstrip("/"), kind, key[:2], key])

    def _place(self, path: str, content: bytes) -> None:
        """A file that readers see whole or not at all."""
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.{uuid4().hex}"
        self._files.makedirs(folder, exist_ok=True)
        try:
            self._files.pipe_file(unfinished, content)
            self._files.mv(unfinished, path)
        except BaseException:
            with tolerating(OSError):
                self._files.rm_file(unfinished)
            raise

    def _sweep(self, path: str) -> None:
        """Deletes what is too old in the folder of `path`, unfinished files among it: once a folder and process."""
        folder = path.rpartition("/")[0]
        if folder in self._swept:
            return
        self._swept.add(folder)
        for told in self._files.ls(folder, detail=True):
            ours = told["type"] == "file" and _OURS.fullmatch(told["name"].rpartition("/")[2])
            if ours and time.time() - told["mtime"] > self._life:
                with tolerating(OSError):  # another process was about it too
                    self._files.rm_file(told["name"])


def _read(found: Any) -> bytes | None:
    match found:
        case bytes():
            return found
        case FileNotFoundError():
            return None
        case IsADirectoryError():
            return b""  # no entry: it is refused as what it is
        case Exception():
            raise found
    return bytes(found)
