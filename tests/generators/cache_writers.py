"""Processes that write, read and trim one cache directory at one time, some of which are killed: what is read is whole, and what is left is in
order."""

import os
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random

from bascule.cache.disk.entry_paths import entries, unfinished
from bascule.cache.disk.eviction import trim
from bascule.cache.disk.files import Refused
from bascule.cache.disk.store import Store

KIND, KEYS = "graphs", [sha256(bytes([n])).hexdigest() for n in range(60)]
USER = 12345  # nobody's number
LAST = 0.25  # seconds that the processes work for


@dataclass(frozen=True)
class Writers:
    """`killed`: after how many seconds a writer is; `user`: as whom all of them run, 0 being root; `limit`: bytes of the cache."""

    seed: int
    writers: int
    readers: int
    killed: tuple[float, ...]
    umask: int
    user: int
    limit: int

    def source(self) -> str:
        return (
            "from tests.generators.cache_writers import Writers\n\n\n"
            f"def test_it():\n    assert not {self!r}.differences('bascule')\n"
        )

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule":
            return []
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            home = Path(folder) / "home"
            home.mkdir(0o755)
            os.chown(home, self.user, -1)
            store = Store(home / "below" / "cache", KIND, self.limit)
            found = self._together(store)
            return found + waited([child(lambda: _in_order(store, self.killed), self.user, self.umask)])

    def _together(self, store: Store) -> list[str]:
        writers = [self._begun(_write, store, n) for n in range(self.writers)]
        others = [self._begun(_read, store, 100 + n) for n in range(self.readers)]
        begin = time.monotonic()
        for number, after in enumerate(sorted(self.killed)):
            time.sleep(max(0.0, begin + after - time.monotonic()))
            os.kill(writers[number % self.writers][0], signal.SIGKILL)
            others.append(writers[number % self.writers])
            writers[number % self.writers] = self._begun(_write, store, 200 + number)
        return waited(writers + others)

    def _begun(self, work: Callable[[Store, Random], str | None], store: Store, number: int) -> tuple[int, int]:
        return child(lambda: work(store, Random(self.seed + number)), self.user, self.umask)

    def smaller(self) -> Iterator["Writers"]:
        if self.killed:
            yield replace(self, killed=self.killed[1:])
        if self.readers:
            yield replace(self, readers=self.readers - 1)
        if self.writers > 1:
            yield replace(self, writers=self.writers - 1)


def drawn(random: Random) -> Writers:
    alone = (
        random.random() < 0.2
    )  # folders are made, and then given their modes: others may come between under an odd umask
    return Writers(
        seed=random.randrange(1 << 30),
        writers=1 if alone else random.randint(1, 3),
        readers=0 if alone else random.randint(0, 2),
        killed=tuple(round(random.random() * LAST, 3) for _ in range(0 if alone else random.randrange(6))),
        umask=random.choice([0o277, 0o777] if alone else [0, 0o002, 0o022, 0o077]),
        user=random.choice([0, USER]) if os.getuid() == 0 else os.getuid(),
        limit=random.choice([100_000, 3_000_000, 1 << 30]),
    )


def stamped(key: str, size: int) -> bytes:
    """Bytes that only an entry of `key`, of this size, has."""
    begin = f"{key} {size} ".encode()
    return begin + (sha256(begin).digest() * (size // 32 + 1))[:size]


def _write(store: Store, random: Random) -> str | None:
    end = time.monotonic() + LAST
    while time.monotonic() < end:
        key = random.choice(KEYS)
        try:
            store.write(key, stamped(key, random.choice([0, 10, 5_000, 60_000])))
        except Refused as reason:
            return f"not written: {reason}"
    return None


def _read(store: Store, random: Random) -> str | None:
    end = time.monotonic() + LAST
    while time.monotonic() < end:
        if (wrong := _wrong(store, random.choice(KEYS))) is not None:
            return wrong
    return None


def _wrong(store: Store, key: str) -> str | None:
    try:
        content = store.read(key)
    except Refused as reason:
        return f"not read: {reason}"
    if content is not None and content != stamped(key, int(content.split(b" ", 2)[1])):
        return "half of an entry was read"
    return None


def _in_order(store: Store, killed: tuple[float, ...]) -> str | None:
    total = sum(entry.stat().st_size for entry in entries(store.root))
    if total > store.limit + 70_000 * (len(killed) + 3):  # of those who were killed before they could look
        return f"{total} bytes are kept"
    trim(store.root, store.limit)
    if left := [path.name for path in unfinished(store.root)]:
        return f"{left} are left"
    for path in store.root.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            return f"{path.name} has the mode {mode:o}"
    for key in KEYS:
        store.write(key, stamped(key, 10))
        if store.read(key) != stamped(key, 10):
            return "an entry is not kept"
    return None


def child(work: Callable[[], str | None], user: int, umask: int) -> tuple[int, int]:
    """A process that does `work`, and where it tells what was wrong."""
    told, tell = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            os.umask(umask)
            if user != os.getuid():
                os.setgid(user)
                os.setuid(user)
            os.write(tell, (work() or "").encode())
        except BaseException as error:  # it ends here, whatever it is
            os.write(tell, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(tell)
    return number, told


def waited(children: list[tuple[int, int]]) -> list[str]:
    """Waits for the children; returns what they told. One that was killed tells nothing."""
    found = []
    for number, told in children:
        with open(told, "rb") as file:
            found.append(file.read().decode())
        os.waitpid(number, 0)
    return [text for text in found if text]
