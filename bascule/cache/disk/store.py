"""The store of the disk cache: bytes by kind and key, signed (`signing.py`), in files of the user's own (`files.py`), within one
limit (`eviction.py`). A store that cannot be used says so once, and everything is compiled as if it were empty."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...dialect.interrupts import pass_on, tolerating
from ...errors import CacheWarning
from .entry_paths import is_key, place_of
from .eviction import make_room
from .files import Refused, Unusable, own_folder, read_file, write_file
from .signing import key_of, signed, verified

_told: set[Path] = set()  # the roots of which the user knows that they cannot be used


@dataclass(frozen=True)
class Store:
    """Entries of one `kind` under `root`, which need not exist; all kinds together take at most `limit` bytes."""

    root: Path
    kind: str
    limit: int

    def path(self, key: str) -> Path:
        return place_of(self.root, self.kind, key)

    def name(self, key: str) -> str:
        """The name that is signed beside the content: an entry under another key, or of another kind, does not verify."""
        return f"{self.kind}/{key}"

    def read(self, key: str) -> bytes | None:
        """Reads the entry under `key`; None if there is none. Raises `Refused` for one that cannot be read, or that this directory's key has
        not signed."""
        with self._reported("reading"):
            path = self._checked(key)
            entry = read_file(path)
            if entry is None:
                return None
            content = verified(self.signing_key(), self.name(key), entry)
            with tolerating(OSError):
                os.utime(path)  # what was used last is dropped last
            return content

    def write(self, key: str, content: bytes) -> None:
        """Keeps `content` under `key`. Raises `Refused` if that cannot be done; nothing is left then."""
        with self._reported("writing"):
            path = self._checked(key)
            if len(content) > self.limit:
                raise Unusable(f"an entry of {len(content):,} bytes is larger than the limit of {self.limit:,}")
            own_folder(self.root / self.kind)
            own_folder(path.parent)
            write_file(path, signed(self.signing_key(), self.name(key), content))
            make_room(self.root, len(content), self.limit)

    def signing_key(self) -> bytes:
        """The key of the directory. Raises `OSError`, and `Unusable`."""
        return key_of(self.root)

    def _checked(self, key: str) -> Path:
        if not is_key(key):
            raise Refused("no key of an entry")
        return self.path(key)

    @contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        """Warns of a directory that cannot be used; what the file system refuses is `Refused` too."""
        try:
            yield
        except OSError as error:
            pass_on(error)
            reason = Unusable(f"{doing} failed: {error.strerror}")
            warn_unusable(self.root, reason)
            raise reason from error
        except Unusable as reason:
            warn_unusable(self.root, reason)
            raise


def warn_unusable(root: Path, reason: Unusable) -> None:
    """Once for each directory and process."""
    if root not in _told:
        _told.add(root)
        warnings.warn(
            f"the disk cache '{root}' is not used, or not for all: {reason}. BASCULE_CACHE_DIR names another directory; empty, it turns the "
            "cache off",
            CacheWarning,
            stacklevel=2,
        )
