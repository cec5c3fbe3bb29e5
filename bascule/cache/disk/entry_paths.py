"""Where entries lie under the root of the disk cache: `graphs/ab/ab12..`, a kind, the begin of a key, the key.

`traces`: what AOTAutograd came to for graphs of Dynamo's; `graphs`: the compiled graphs; `kernels`: kernels for a GPU;
`schedules`: what `max_autotune` has measured. The root may be a directory with other things in it, which are left alone.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ...dialect.interrupts import pass_on, tolerating
from .signing import FOLDER as SIGNING

TRACES, GRAPHS, KERNELS, SCHEDULES = KINDS = ("traces", "graphs", "kernels", "schedules")
_KEY = re.compile(r"[0-9a-f]{64}")  # nothing that leads out of a folder
_UNFINISHED = re.compile(r"\.([0-9a-f]{64})\.[0-9a-f]{32}")
_UNFINISHED_KEY = re.compile(r"\.key\.[0-9a-f]{32}")
_SHARD = re.compile(r"[0-9a-f]{2}")


def is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def place_of(root: Path, kind: str, key: str) -> Path:
    return root / kind / key[:2] / key


def entries(root: Path, *kinds: str) -> Iterator["os.DirEntry[str]"]:
    """The entries of `kinds`, or of all, without unfinished ones."""
    for shard, file in _files(root, kinds or KINDS):
        if is_key(file.name) and file.name.startswith(shard):
            yield file


def unfinished(root: Path) -> Iterator[Path]:
    """The files that a writer has not finished, or never will."""
    for shard, file in _files(root, KINDS):
        own = _UNFINISHED.fullmatch(file.name)
        if own is not None and own[1].startswith(shard):
            yield Path(file.path)
    for file in _listed(root / SIGNING):
        if _UNFINISHED_KEY.fullmatch(file.name):
            yield Path(file.path)


def _files(root: Path, kinds: tuple[str, ...]) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    for kind in kinds:
        for shard in _listed(root / kind):
            if _SHARD.fullmatch(shard.name):
                for file in _listed(shard.path):
                    with tolerating(OSError):
                        if file.is_file(follow_symlinks=False):
                            yield shard.name, file


def _listed(folder: str | Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError as error:  # it is not there, or not to be read: nothing of it is loaded either
        pass_on(error)
        return []
