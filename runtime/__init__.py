"""Running what was compiled. Nothing here needs the compiler: it gets source text, code addresses and tensors."""

from .loading import Kernels, load

__all__ = ["Kernels", "load"]
