"""Entries of the disk cache among those that `torch.compiler.save_cache_artifacts` carries to another machine.

They are code, and taken as such: `torch.compiler.load_cache_artifacts` keeps what is signed with `$BASCULE_CACHE_KEY`, a secret that both
processes have, or, without one, with the key of the cache directory; and all of it where `$BASCULE_TRUST_ARTIFACTS` is 1. The rest is refused.
`import torch` imports this module: what it needs is imported when it is used.
"""

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from ..compat.inductor.cache_artifacts import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

if TYPE_CHECKING:
    from pathlib import Path

    from .disk.store import Store

KEY_VARIABLE, TRUST_VARIABLE = "BASCULE_CACHE_KEY", "BASCULE_TRUST_ARTIFACTS"
LEAST = 32  # characters of a secret: who has artifacts can try secrets on them
COUNTERS = {"graphs": "cache", "traces": "traces"}  # kind of entries -> where what happens is counted
TYPES = {"graphs": "bascule", "traces": "bascule_traces"}  # kind of entries -> type of artifacts


@CacheArtifactFactory.register
class GraphArtifact(CacheArtifact):
    """A compiled graph under its key."""

    def populate_cache(self) -> None:
        _keep("graphs", self.key, self.content)

    @staticmethod
    def type() -> str:
        return TYPES["graphs"]


@CacheArtifactFactory.register
class TraceArtifact(CacheArtifact):
    """A trace-cache entry under its key; the compiled graphs are artifacts of their own."""

    def populate_cache(self) -> None:
        _keep("traces", self.key, self.content)

    @staticmethod
    def type() -> str:
        return TYPES["traces"]


def record(store: "Store", key: str, content: bytes) -> None:
    """Notes that this process used an entry of `store`."""
    from ..dialect.interrupts import tolerating
    from .disk.files import Refused
    from .disk.signing import signed

    with tolerating(OSError, Refused):  # the store has told of a key that it cannot read, `_keep` tells of a secret
        entry = signed(_key(store.root), store.name(key), content)
        CacheArtifactManager.record_artifact(TYPES[store.kind], key, entry)


def _keep(kind: str, key: str, entry: bytes) -> None:
    """Puts an artifact into the disk cache, signed as the entries there."""
    from ..reporting.counters import count
    from .disk.directory import store_of
    from .disk.files import Refused

    store = store_of(kind)
    try:
        if store is None:
            raise Refused("BASCULE_CACHE_DIR is empty")
        store.write(key, _trusted(store, key, entry))
    except Refused as reason:
        count(COUNTERS[kind], f"refused: {reason}")


def _trusted(store: "Store", key: str, entry: bytes) -> bytes:
    """The content of an artifact. Raises `Refused`, and warns once, for one that may be anybody's."""
    from ..dialect.interrupts import pass_on
    from .disk.files import Refused, Unusable
    from .disk.signing import content_of, verified

    if os.environ.get(TRUST_VARIABLE) == "1":
        return content_of(entry)
    try:
        return verified(_key(store.root), store.name(key), entry)
    except OSError as error:
        pass_on(error)
        raise Unusable(f"reading its key failed: {error.strerror}") from error
    except Refused as reason:
        _warn(str(reason))
        raise Refused(f"an artifact: {reason}") from reason


def _key(root: "Path") -> bytes:
    """The key that signs artifacts."""
    from .disk.files import Refused
    from .disk.signing import key_of

    secret = os.environ.get(KEY_VARIABLE, "")
    if not secret:
        return key_of(root)
    if len(secret) < LEAST:
        raise Refused(f"${KEY_VARIABLE} has fewer than {LEAST} characters")
    return sha256(secret.encode(errors="surrogateescape")).digest()


_told: set[str] = set()


def _warn(reason: str) -> None:
    """Once for each reason and process."""
    import warnings

    from ..errors import CacheWarning

    if reason not in _told:
        _told.add(reason)
        warnings.warn(
            f"cache artifacts are code, and were refused: {reason}. Give the process that saves them and the one that loads them one secret in "
            f"{KEY_VARIABLE}, or, if you trust whoever may have written them, set {TRUST_VARIABLE}=1",
            CacheWarning,
            stacklevel=2,
        )
