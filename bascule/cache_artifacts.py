"""Entries of the disk cache among those that `torch.compiler.save_cache_artifacts` carries to another machine.

`torch.compiler.load_cache_artifacts` knows our entries once this module has been imported.
Names private modules of PyTorch; checked on torch 2.13.
"""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from .cache_directory import GRAPHS, Directory, Refused, root
from .counting import count

TYPE = "bascule"


@CacheArtifactFactory.register
class GraphArtifact(CacheArtifact):
    """A compiled graph under its key."""

    def populate_cache(self) -> None:
        folder = root()
        if folder is None:
            return
        try:
            Directory(folder / GRAPHS).write(self.key, self.content)
        except Refused as reason:
            count("cache", f"refused: {reason}")

    @staticmethod
    def type() -> str:
        return TYPE


def record_artifact(key: str, content: bytes) -> None:
    """Notes that this process used the entry."""
    CacheArtifactManager.record_artifact(TYPE, key, content)
