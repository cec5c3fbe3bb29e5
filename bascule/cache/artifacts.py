"""Entries of the caches among those that `torch.compiler.save_cache_artifacts` carries to another machine.

They are code, and taken as such: `torch.compiler.load_cache_artifacts` keeps what is signed with `$BASCULE_CACHE_KEY`, a secret that both
processes have, or, without one, with the key of the cache directory; and all of it where `$BASCULE_TRUST_ARTIFACTS` is 1. The rest is refused.
`import torch` imports this module: what it needs is imported when it is used.
"""

import os
from typing import TYPE_CHECKING

from ..compat.inductor.cache_artifacts import CacheArtifact, CacheArtifactFactory

if TYPE_CHECKING:
    from .disk.store import Store
    from .stores.process_memory import MemoryStore

TRUST_VARIABLE = "BASCULE_TRUST_ARTIFACTS"


@CacheArtifactFactory.register
class GraphArtifact(CacheArtifact):
    """A compiled graph under its key."""

    def populate_cache(self) -> None:
        _keep("graphs", self.key, self.content)

    @staticmethod
    def type() -> str:
        return "bascule"


@CacheArtifactFactory.register
class TraceArtifact(CacheArtifact):
    """A trace-cache entry under its key; the compiled graphs are artifacts of their own."""

    def populate_cache(self) -> None:
        _keep("traces", self.key, self.content)

    @staticmethod
    def type() -> str:
        return "bascule_traces"


@CacheArtifactFactory.register
class KernelArtifact(CacheArtifact):
    """A kernel for a GPU under its key, which a graph that was not compiled yet may have too."""

    def populate_cache(self) -> None:
        _keep("kernels", self.key, self.content)

    @staticmethod
    def type() -> str:
        return "bascule_kernels"


@CacheArtifactFactory.register
class ScheduleArtifact(CacheArtifact):
    """The schedule of a kernel that `max_autotune` has found to be fastest."""

    def populate_cache(self) -> None:
        _keep("schedules", self.key, self.content)

    @staticmethod
    def type() -> str:
        return "bascule_schedules"


def _keep(kind: str, key: str, entry: bytes) -> None:
    """Puts an artifact where entries are kept on this machine, signed as they are there."""
    from ..reporting.counters import count
    from .disk.files import Refused
    from .entries import COUNTERS
    from .stores.backed_store import store_of

    store = store_of(kind)
    try:
        if store is None:
            raise Refused("BASCULE_CACHE_DIR is empty")
        store.local.write(key, _trusted(store.local, key, entry))
    except Refused as reason:
        count(COUNTERS[kind], f"refused: {reason}")


def _trusted(store: "Store | MemoryStore", key: str, entry: bytes) -> bytes:
    """The content of an artifact. Raises `Refused`, and warns once, for one that may be anybody's."""
    from ..dialect.interrupts import pass_on
    from .disk.files import Refused, Unusable
    from .disk.signing import content_of, verified
    from .stores.recorded import artifact_key

    if os.environ.get(TRUST_VARIABLE) == "1":
        return content_of(entry)
    try:
        return verified(artifact_key(store), store.name(key), entry)
    except OSError as error:
        pass_on(error)
        raise Unusable(f"reading its key failed: {error.strerror}") from error
    except Refused as reason:
        _warn(str(reason))
        raise Refused(f"an artifact: {reason}") from reason


_told: set[str] = set()


def _warn(reason: str) -> None:
    """Once for each reason and process."""
    import warnings

    from ..errors import CacheWarning
    from .stores.recorded import KEY_VARIABLE

    if reason not in _told:
        _told.add(reason)
        warnings.warn(
            f"cache artifacts are code, and were refused: {reason}. Give the process that saves them and the one that loads them one secret in "
            f"{KEY_VARIABLE}, or, if you trust whoever may have written them, set {TRUST_VARIABLE}=1",
            CacheWarning,
            stacklevel=2,
        )
