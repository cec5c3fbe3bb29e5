"""The artifacts that `torch.compiler.save_cache_artifacts` collects. Checked on torch 2.11 to 2.14."""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

__all__ = [
    "CacheArtifact",
    "CacheArtifactFactory",
    "CacheArtifactManager",
]
