"""Files of the disk cache: the user's own, which nobody else can write, each whole or not there.

A file is written under another name, which its writer has locked, and renamed: readers and concurrent writers see all of it or nothing, and
what a killed writer has left is known by its lock, which nobody holds.
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from ...dialect.interrupts import tolerating

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Refused(Exception):
    """Something is not loaded from the cache, or not kept there; the text says why."""


class Unusable(Refused):
    """`Refused` for what is true of all that would be kept in a directory."""


def own_folder(folder: Path) -> None:
    """Makes `folder`, and what it lies in, if it is not there: under any umask nobody else can write it. Raises `OSError`, and `Unusable` for
    one that others can write, or can have put there."""
    _make(folder)
    for status in (os.lstat(folder), os.stat(folder)):  # of a link, and of what it leads to
        if status.st_uid != os.getuid():
            raise Unusable("the directory belongs to another user")
    if status.st_mode & _OTHERS_WRITE:
        raise Unusable("the directory can be written by others")


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:
            _make(folder.parent)
            os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)


def read_file(path: Path, *, private: bool = False) -> bytes | None:
    """The bytes of a file; None if it is not there. Raises `OSError`, and `Refused` for one that others could have written, or, if it has to be
    `private`, read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else who opens a pipe waits for its writer
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("what is there is no file")
        if status.st_uid != os.getuid():
            raise Refused("a file belongs to another user")
        if status.st_mode & _OTHERS_WRITE:
            raise Refused("a file can be written by others")
        if private and status.st_mode & _OTHERS:
            raise Refused("a file can be read by others; without it what is kept is made anew")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes, *, over: bool = True) -> None:
    """Writes a file, `over` one that is there or not at all. Raises `OSError`; nothing is left then."""
    unfinished, descriptor = _begin(path)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if over:
                os.replace(unfinished, path)
            else:
                os.link(unfinished, path)
    finally:  # also of who is interrupted
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _begin(path: Path) -> tuple[Path, int]:
    """An unfinished file beside `path`, and its descriptor, which holds its lock."""
    while True:
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.fchmod(descriptor, 0o600)
        with tolerating(OSError):  # some file systems have no locks: nothing is taken for abandoned there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return unfinished, descriptor
        os.close(descriptor)  # `remove_abandoned` came before the lock


def remove_abandoned(unfinished: Path) -> None:
    """Deletes an unfinished file whose writer is gone."""
    with tolerating(OSError):
        descriptor = os.open(unfinished, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unfinished.unlink()
        finally:
            os.close(descriptor)
