"""A process that is not root, and a cache directory that is not its own, or that it cannot write: no entry of others is loaded, what it has can
be read, and it is told once."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bascule.cache.disk.files import Refused
from bascule.cache.disk.store import Store
from bascule.cache.stores.backed_store import BackedStore
from bascule.errors import CacheWarning
from tests.generators.cache_writers import KEYS, KIND, USER, child, stamped, waited

# What the cache is -> who owns it, the modes of its folders and files, whether what is there is read.
PLACES = {
    "another user's, closed": (USER + 1, 0o700, 0o600, False),
    "another user's, open to all": (USER + 1, 0o777, 0o666, False),
    "another user's, to be read": (USER + 1, 0o755, 0o644, False),
    "its own, not to be written": (USER, 0o500, 0o400, True),
    "its own, not to be entered": (USER, 0o000, 0o600, False),
}


@dataclass(frozen=True)
class Strangers:
    """`place`: one of `PLACES`."""

    place: str

    def source(self) -> str:
        return (
            "from tests.generators.cache_strangers import Strangers\n\n\n"
            f"def test_it():\n    assert not {self!r}.differences('bascule')\n"
        )

    def smaller(self) -> Iterator["Strangers"]:
        return iter(())

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule" or os.getuid() != 0:  # only root can give away a directory
            return []
        owner, folders, files, read = PLACES[self.place]
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            store = Store(Path(folder) / "cache", KIND, 1 << 30)
            store.write(KEYS[0], stamped(KEYS[0], 100))
            for path in (store.root, *store.root.rglob("*")):
                path.chmod(folders if path.is_dir() else files)
                os.chown(path, owner, -1)
            return waited([child(lambda: _wrong(store, read), USER, 0o022)])


def drawn(random) -> Strangers:
    return Strangers(random.choice([*PLACES]))


def _wrong(store: Store, read: bool) -> str | None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            found = BackedStore(store).find(KEYS[:1]).get(KEYS[0])
            if found != (stamped(KEYS[0], 100) if read else None):
                return f"{found!r} was read"
            try:
                store.write(KEYS[1], stamped(KEYS[1], 100))
                return "an entry was written"
            except Refused:
                pass
    if len([one for one in told if one.category is CacheWarning]) != 1:
        return f"{[str(one.message) for one in told]} was told"
    return None
