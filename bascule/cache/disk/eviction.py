"""The bytes that all kinds of entries may take together: what was used longest ago goes when there is no room.

What is stored is noted in one file, a byte for each 4 KiB, which all processes lengthen; once that is an eighth of the limit, one of them
looks at all entries. A look leaves at most seven eighths: the limit holds, and a store costs a share of a look that does not grow with the
number of entries.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ...dialect.interrupts import pass_on, tolerating
from .entry_paths import entries, unfinished
from .files import own_folder, remove_abandoned

FOLDER = "stored"  # under the root of the caches
UNIT = 4096  # bytes for which the file grows by one
_HEAD = 8  # bytes at its begin: the limit for which the last look was


def make_room(root: Path, size: int, limit: int) -> None:
    """Called after `size` bytes were stored under `root`: keeps what is there below `limit` bytes. Raises `OSError`, and `Unusable`."""
    path = root / FOLDER / "since"
    own_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, bytes(_HEAD))
        os.write(descriptor, bytes(-(-size // UNIT)))
        stored = (os.fstat(descriptor).st_size - _HEAD) * UNIT
        if stored > limit // 8 or os.pread(descriptor, _HEAD, 0) != _told(limit):
            _look(root, limit, path, descriptor)
    finally:
        os.close(descriptor)


def _told(limit: int) -> bytes:
    return min(limit, (1 << 64) - 1).to_bytes(_HEAD, "little")


def _look(root: Path, limit: int, path: Path, lock: int) -> None:
    """Counts anew, if no other process is about it. What is stored meanwhile counts for the next look, and one that is killed is made up for."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError as error:  # a file system without locks: two may look at one time, and delete the same
        pass_on(error)
    placed = os.open(path, os.O_WRONLY)  # with O_APPEND every write goes to the end
    try:
        os.pwrite(placed, bytes(_HEAD), 0)
        os.ftruncate(placed, _HEAD)
        trim(root, limit)
        os.pwrite(placed, _told(limit), 0)
    finally:
        os.close(placed)


def trim(root: Path, limit: int) -> None:
    """Deletes what writers that were killed have left; and the entries under `root` used longest ago, until three quarters of `limit` bytes
    are left, if there are more than seven eighths."""
    for left in unfinished(root):
        remove_abandoned(left)
    found = sorted(_told_of(root))
    total = sum(size for _, size, _ in found)
    if total <= limit * 7 // 8:
        return
    for _, size, path in found:
        if total <= limit * 3 // 4:
            break
        with tolerating(OSError):
            os.unlink(path)
            total -= size


def _told_of(root: Path) -> Iterator[tuple[float, int, str]]:
    """Of each entry when it was used last, its bytes, and its path."""
    for entry in entries(root):
        with tolerating(OSError):
            status = entry.stat(follow_symlinks=False)
            yield status.st_mtime, status.st_size, entry.path
