"""Entries of the disk cache among those that `torch.compiler.save_cache_artifacts` carries to another machine.

`torch.compiler.load_cache_artifacts` knows our entries once this module has been imported.
Names private modules of PyTorch; checked on torch 2.13.
"""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from .cache_directory import GRAPHS, TRACES, Directory, Refused, root
from .counting import count

TYPE, TRACE_TYPE = "bascule", "bascule_traces"


def _write(group: str, folder: str, key: str, content: bytes) -> None:
    place = root()
    if place is None:
        return
    try:
        Directory(place / folder).write(key, content)
    except Refused as reason:
        count(group, f"refused: {reason}")


@CacheArtifactFactory.register
class GraphArtifact(CacheArtifact):
    """A compiled graph under its key."""

    def populate_cache(self) -> None:
        _write("cache", GRAPHS, self.key, self.content)

    @staticmethod
    def type() -> str:
        return TYPE


@CacheArtifactFactory.register
class TraceArtifact(CacheArtifact):
    """What a trace came to, under its key; the compiled graphs are artifacts of their own."""

    def populate_cache(self) -> None:
        _write("traces", TRACES, self.key, self.content)

    @staticmethod
    def type() -> str:
        return TRACE_TYPE


def record_graph(key: str, content: bytes) -> None:
    """Notes that this process used the graph's entry."""
    CacheArtifactManager.record_artifact(TYPE, key, content)


def record_trace(key: str, content: bytes) -> None:
    """Notes that this process used the trace's entry."""
    CacheArtifactManager.record_artifact(TRACE_TYPE, key, content)
