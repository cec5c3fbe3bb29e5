"""The memory of intermediates. A large block is kept between calls, one for all graphs of the process.

What is freed and asked for again comes from elsewhere (`result_block_pool.py` says why): from memory that is in no cache, or not there yet.
Graphs that run one after another (a forward and its backward) share the kept block; it is the largest any of them asked for.
"""

import torch

from .allocation import empty
from .result_block_pool import LEAST, release_blocks

_kept: list[torch.Tensor] = []  # at most one; `pop` and `append` are atomic


def take_arena(size: int) -> torch.Tensor:
    """At least `size` bytes that are the caller's until given back; of unspecified contents."""
    if size < LEAST:
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
    if not _kept and block.numel() >= LEAST:
        _kept.append(block)


def release_arenas() -> None:
    """Frees what is kept: the arena, and blocks of results that nobody has."""
    _kept.clear()
    release_blocks()
