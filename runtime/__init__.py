"""Running what was compiled. Nothing here needs the compiler: it gets source text, code addresses and tensors."""

from . import index_errors  # noqa: F401  # its operators
from .arenas import release_arenas
from .loading import Kernels, load

__all__ = ["Kernels", "load", "release_arenas"]
