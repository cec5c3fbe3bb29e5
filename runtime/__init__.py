"""Running what was compiled. Nothing here needs the compiler: it gets source text, code addresses and tensors."""

from .memory.cpu_arena import release_arenas
from .modules import grouped_products, host_copies, index_errors  # noqa: F401  # their operators
from .modules.loading import Kernels, load

__all__ = ["Kernels", "load", "release_arenas"]
