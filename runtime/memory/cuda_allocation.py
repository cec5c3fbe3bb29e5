"""Allocation and moves of tensors on a GPU for generated modules. Memory is that of PyTorch's caching allocator, whose blocks are freed in
stream order.
"""

import torch

from bascule.compat.tensors.allocation import empty_strided_cuda as empty
from bascule.compat.tensors.allocation import reinterpret_tensor as view

from .allocation import laid_out


def take_arena(size: int, graph: str) -> torch.Tensor:
    """`size` bytes on the current device, of unspecified contents, freed with the tensor.

    Raises `torch.OutOfMemoryError` that names `graph` where they are not to be had.
    """
    try:
        return empty((size,), (1,), torch.uint8)
    except torch.OutOfMemoryError as error:
        told = f"{graph}: no room for its arena of {size:,} bytes, which holds the intermediates of a call. {error}"
        raise torch.OutOfMemoryError(told) from error


__all__ = ["empty", "laid_out", "take_arena", "view"]
