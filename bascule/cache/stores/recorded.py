"""Entries that this process used are recorded for `torch.compiler.save_cache_artifacts`, signed: `bascule/cache/artifacts.py` loads them."""

import os
import warnings
from functools import cache
from hashlib import sha256

from ...compat.inductor.cache_artifacts import CacheArtifactManager
from ...dialect.interrupts import tolerating
from ...errors import CacheWarning
from ..disk.files import Refused
from ..disk.signing import signed
from ..disk.store import Store
from .process_memory import MemoryStore

KEY_VARIABLE = "BASCULE_CACHE_KEY"
LEAST = 32  # characters of a secret: who has artifacts can try secrets on them
# kind of entries -> type of artifacts
TYPES = {
    "graphs": "bascule",
    "traces": "bascule_traces",
    "kernels": "bascule_kernels",
    "schedules": "bascule_schedules",
}


def record(store: Store | MemoryStore, key: str, content: bytes) -> None:
    """Notes that this process used an entry of `store`."""
    with tolerating(OSError):  # the store has told of a key that it cannot read
        try:
            entry = signed(artifact_key(store), store.name(key), content)
        except Refused as reason:
            if os.environ.get(KEY_VARIABLE):  # else entries are in memory, whose store has no key
                _warn(str(reason))
            return
        CacheArtifactManager.record_artifact(TYPES[store.kind], key, entry)


@cache
def _warn(reason: str) -> None:
    warnings.warn(
        f"torch.compiler.save_cache_artifacts has nothing of Bascule's: {reason}. It signs what is carried to another machine",
        CacheWarning,
        stacklevel=3,
    )


def artifact_key(store: Store | MemoryStore) -> bytes:
    """The key that signs artifacts. Raises `OSError`, and `Refused` for a secret that is too short."""
    secret = os.environ.get(KEY_VARIABLE, "")
    if not secret:
        return store.signing_key()
    if len(secret) < LEAST:
        raise Refused(f"${KEY_VARIABLE} has fewer than {LEAST} characters")
    return sha256(secret.encode(errors="surrogateescape")).digest()
