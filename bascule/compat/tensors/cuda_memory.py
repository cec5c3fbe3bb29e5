"""The caching allocator and the streams of a GPU, on builds without CUDA too. Checked on torch 2.11 to 2.14."""

from collections.abc import Callable

import torch
from torch.cuda.memory import _snapshot as snapshot

# The current stream of a device, as the driver knows it; None in a build without CUDA.
raw_stream: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def allocator_enabled() -> bool:
    """Whether PyTorch's caching allocator is on."""
    enabled = getattr(torch._C, "_cuda_cudaCachingAllocator_is_enabled", None)
    return enabled is None or enabled()


__all__ = ["allocator_enabled", "raw_stream", "snapshot"]
