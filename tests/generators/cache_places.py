"""Faults of a cache's directory, of its key and of the file system, for `cache_faults.py`."""

import builtins
import errno
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest.mock import patch

from bascule.cache.disk import files
from bascule.cache.disk.signing import FOLDER
from tests.generators.cache_damages import OTHER, Damage, Does


def _key(change: Callable[[Path, Random], object]) -> Does:
    return lambda root, kind, random, stack: change(root / FOLDER / "key", random) and None


def _folder(make: Callable[[Path], object]) -> Does:
    """In an empty cache, the folder of the kind, or that of the key."""

    def does(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
        root.mkdir(0o775)
        make(root / random.choice([kind, FOLDER]))

    return does


def _elsewhere(owner: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        elsewhere = folder.parents[1] / "elsewhere"
        elsewhere.mkdir(0o700)
        folder.symlink_to(elsewhere)
        os.chown(folder, owner, -1, follow_symlinks=False)

    return make


def _shared(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def _given_away(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, OTHER, -1)


def _umask(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
    stack.callback(os.umask, os.umask(random.choice([0, 0o002, 0o022, 0o077])))


def _unusable(does: Does, *, full: bool = False, root: bool = False) -> Damage:
    return Damage(does, full=full, warns=1, mended=False, root=root)


DIRECTORIES = {
    "the key is gone": Damage(_key(lambda path, random: path.unlink())),
    "the key is cut": Damage(_key(lambda path, random: path.write_bytes(random.randbytes(random.randrange(32))))),
    "the key is another": Damage(_key(lambda path, random: path.write_bytes(random.randbytes(32)))),
    "the key can be read": _unusable(_key(lambda path, random: path.chmod(0o644)), full=True),
    "the key is another user's": _unusable(_key(lambda path, random: os.chown(path, OTHER, -1)), full=True, root=True),
    "a folder that others can write": _unusable(_folder(_shared)),
    "a folder of another user": _unusable(_folder(_given_away), root=True),
    "a link to a folder": Damage(_folder(_elsewhere(os.getuid())), full=False),
    "another user's link": _unusable(_folder(_elsewhere(OTHER)), root=True),
    "a file for a folder": _unusable(_folder(Path.touch)),
    "a file for the cache": _unusable(lambda root, *_: root.touch()),
    "any umask": Damage(_umask, full=False),
}


class _Failing:
    """A file that fails when it is written or read."""

    def __init__(self, file, error: OSError):
        self._file, self._error = file, error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def write(self, content: bytes) -> None:
        self._file.write(content[: len(content) // 2])
        raise self._error

    def read(self) -> bytes:
        raise self._error


def _failing(*names: str) -> Does:
    """One of the functions of `os` fails, for all that lies under the root."""

    def does(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
        name, number = (
            random.choice(names),
            random.choice([errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS]),
        )
        error, real = OSError(number, os.strerror(number)), getattr(os, name)

        def fails(path, *args, **kwargs):
            if str(path).startswith(str(root)) and (name != "open" or args[0] & os.O_CREAT):
                raise error
            return real(path, *args, **kwargs)

        stack.enter_context(patch.object(os, name, fails))

    return does


def _on_open(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
    """The disk fails in the middle of a file."""
    number = random.choice([errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
    error = OSError(number, os.strerror(number))

    def fails(*args, **kwargs):
        return _Failing(builtins.open(*args, **kwargs), error)

    stack.enter_context(patch.object(files, "open", fails, create=True))


SYSTEM = {
    "nothing can be made": _unusable(_failing("open", "mkdir")),
    "nothing can be renamed": _unusable(_failing("replace")),
    "no file can be written": _unusable(_on_open),
    "no file can be read": _unusable(_on_open, full=True),
    "no links": Damage(_failing("link"), full=False),
}
