"""The memory of intermediates. One block is kept between calls, for all graphs of the process.

A fresh block costs a page fault every 4 KiB when it is first written, which can take longer than the kernels that write it;
graphs that run one after another (a forward and its backward) share the kept one. It is the largest any of them asked for.
"""

import torch

from .tensors import empty

_kept: list[torch.Tensor] = []  # at most one; `pop` and `append` are atomic


def take_arena(size: int) -> torch.Tensor:
    """At least `size` bytes that are the caller's until given back; of unspecified contents."""
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
    if not _kept:
        _kept.append(block)


def release_arenas() -> None:
    """Frees the kept block."""
    _kept.clear()
