"""The memory of intermediates. A large block is kept between calls, one for all graphs of the process.

Up to `MALLOC_KEEPS` bytes the C library keeps what is freed, for anybody, so that an arena costs next to nothing. What is larger
it takes from the system each time: a page fault every 4 KiB when it is first written, ten times what it takes to write the page.
Graphs that run one after another (a forward and its backward) share the kept block; it is the largest any of them asked for.
"""

import torch

from .tensors import empty

MALLOC_KEEPS = 32 << 20  # glibc's DEFAULT_MMAP_THRESHOLD_MAX: larger blocks come straight from the system

_kept: list[torch.Tensor] = []  # at most one; `pop` and `append` are atomic


def take_arena(size: int) -> torch.Tensor:
    """At least `size` bytes that are the caller's until given back; of unspecified contents."""
    if size <= MALLOC_KEEPS:
        return empty((size,), (1,), torch.uint8)
    try:
        block = _kept.pop()
    except IndexError:  # none yet, or another call has it: one in another thread, or one that this is nested in
        return empty((size,), (1,), torch.uint8)
    if block.numel() >= size:
        return block
    del block  # before the larger one is made
    return empty((size,), (1,), torch.uint8)


def give_arena(block: torch.Tensor) -> None:
    """Gives a block back. One that is not (its call raised) is freed like any tensor."""
    if not _kept and block.numel() > MALLOC_KEEPS:
        _kept.append(block)


def release_arenas() -> None:
    """Frees the kept block."""
    _kept.clear()
