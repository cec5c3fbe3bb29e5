"""Damages that `cache_faults.py` does to a disk cache: functions of its root, the kind of entries, a source of numbers, and a stack whose end
undoes what would last."""

import os
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bascule.runtime.packages.container import pack, unpack

from bascule.cache.disk.signing import content_of, key_of, signed

OTHER = 12345  # a user who is nobody


Does = Callable[[Path, str, Random, ExitStack], None]


@dataclass(frozen=True)
class Damage:
    """`full`: there are entries before; `warns`: how often the user is told; `spoils`: entries of the kind may not be loaded; `mended`: the
    next call finds what this one has kept; `root`: only root can do it."""

    does: Does
    full: bool = True
    warns: int = 0
    spoils: bool = True
    mended: bool = True
    root: bool = False


def _files(root: Path, kind: str) -> list[Path]:
    return sorted((root / kind).glob("??/*"))


def _on_files(change: Callable[[Path, Random], None]) -> Does:
    """All entries of the kind are changed."""

    def does(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
        for path in _files(root, kind):
            change(path, random)

    return does


def _on_bytes(change: Callable[[bytes, Random], bytes]) -> Does:
    return _on_files(lambda path, random: _put(path, change(path.read_bytes(), random)))


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _flipped(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


class _Runs:
    def __init__(self, file: str):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (self.file,)


def _forged(path: Path, random: Random) -> None:
    """Code of somebody's, signed with a key of theirs: what is unpickled, or a wrapper, makes the directory `ran`."""
    ran = str(path.parents[3] / "ran")
    description, blobs = unpack(content_of(path.read_bytes()))
    blobs |= {"result": pickle.dumps(_Runs(ran)), "wrapper": f"import os\nos.mkdir({ran!r})\n".encode()}
    content = pack(description, blobs)
    key = random.choice([bytes(32), random.randbytes(32), b""])
    entry = signed(key, f"{path.parents[1].name}/{path.name}", content)
    path.write_bytes(random.choice([entry, content]))


def _swapped(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
    """Each entry is renamed to the key of another, of its own kind or of the other one."""
    mine, others = _files(root, kind), _files(root, random.choice(["graphs", "traces"]))
    contents = [path.read_bytes() for path in others]
    for n, path in enumerate(mine):
        rotated = zip(others[n:] + others[:n], contents[n:] + contents[:n])
        path.write_bytes(next(content for other, content in rotated if other != path))


def _resigned(root: Path, kind: str, random: Random, stack: ExitStack) -> None:
    """Entries that are signed, and no entries: as another version might have left them."""
    for path in _files(root, kind):
        content = random.choice([b"", random.randbytes(200), pack({"key": path.name}, {}), pack({"key": "0" * 64}, {})])
        path.write_bytes(signed(key_of(root), f"{kind}/{path.name}", content))


def _replaced(make: Callable[[Path], None]) -> Does:
    def change(path: Path, random: Random) -> None:
        path.unlink()
        make(path)

    return _on_files(change)


DAMAGES = {
    "cut": Damage(_on_bytes(lambda content, random: content[: random.randrange(len(content))])),
    "a bit changed": Damage(_on_bytes(_flipped)),
    "longer": Damage(_on_bytes(lambda content, random: content + random.randbytes(random.randint(1, 5)))),
    "other bytes": Damage(_on_bytes(lambda content, random: random.randbytes(len(content)))),
    "forged": Damage(_on_files(_forged)),
    "swapped": Damage(_swapped),
    "signed nonsense": Damage(_resigned),
    "writable by others": Damage(_on_files(lambda path, random: path.chmod(random.choice([0o620, 0o602, 0o666])))),
    "of another user": Damage(_on_files(lambda path, random: os.chown(path, OTHER, -1)), root=True),
    "a pipe": Damage(_replaced(os.mkfifo)),
    "a link to a device": Damage(_replaced(lambda path: path.symlink_to("/dev/zero"))),
    "a directory": Damage(_replaced(Path.mkdir), warns=1, mended=False),
    "gone": Damage(_on_files(lambda path, random: path.unlink())),
}
