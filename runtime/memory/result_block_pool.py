"""Large results lie in memory that earlier results of the same size had, once nobody has those any more.

The C library does not give the same block again: what it cuts off for alignment (before glibc 2.39) or gives back to the system makes the
next block of a size lie elsewhere. So results wander through memory that is in no cache, and that is often not there yet, a page fault
every 4 KiB. Here a block is a storage that stays when a result dies; as long as anything else refers to the storage (a tensor, a view, an
array of NumPy's), it is not given again. It is an ordinary storage: it can be resized, shared between processes, or saved.
"""

import threading
from collections.abc import Sequence
from sys import getrefcount

import torch
from torch import is_inference_mode_enabled as inference

from bascule.compat.tensors.allocation import storage_users as users_of

from .allocation import empty, view

LEAST = 1 << 20  # bytes of a block worth keeping
LIMIT = 64 << 20  # bytes of all blocks that are kept, in use or not
PATIENCE = 256  # blocks taken, after which one that was not is given up for another

Key = tuple[int, torch.dtype, bool]  # bytes, dtype, whether made in inference mode, whose tensors are of another kind


class Block:
    """`tensor` holds the memory and is never handed out. `taken`: when the memory was last given."""

    __slots__ = ("address", "key", "references", "storage", "storage_object", "taken", "tensor", "users")

    def __init__(self, key: Key, taken: int):
        self.key, self.taken = key, taken
        self.tensor = empty((key[0] // key[1].itemsize,), (1,), key[1])
        # The one object by which Python knows the storage: who holds that is not counted as another user.
        self.storage_object = self.tensor.untyped_storage()
        self.storage = self.storage_object._cdata
        self.address = self.tensor.data_ptr()
        self.users, self.references = users_of(self.storage), getrefcount(self.storage_object)


_blocks: list[Block] = []
_clock = 0
_busy = threading.Lock()  # never waited for: a fork may copy it locked


def empty_kept(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, size: int) -> torch.Tensor:
    """A tensor of unspecified contents, which has at most `size` bytes from its first element to its last."""
    global _clock
    if not LEAST <= size <= LIMIT or not _busy.acquire(False):
        return empty(sizes, strides, dtype)
    try:
        _clock += 1
        key = (size, dtype, inference())
        for block in _blocks:  # always the same one of several: the likeliest to be in a cache
            if (
                block.key == key
                and users_of(block.storage) == block.users
                and getrefcount(block.storage_object) == block.references
                # Resized, or shared with another process, which may still have it.
                and block.tensor.data_ptr() == block.address
            ):
                block.taken = _clock
                return view(block.tensor, sizes, strides, 0)
        if not _made_room(size):
            return empty(sizes, strides, dtype)
        block = Block(key, _clock)
        _blocks.append(block)
        return view(block.tensor, sizes, strides, 0)
    finally:
        _busy.release()


def _made_room(size: int) -> bool:
    """Whether another block may be kept; for it those are given up that were not taken for long."""
    room = LIMIT - sum(block.key[0] for block in _blocks)
    for block in sorted(_blocks, key=lambda block: block.taken):
        if room >= size or _clock - block.taken <= PATIENCE:
            break
        _blocks.remove(block)
        room += block.key[0]
    return room >= size


def release_blocks() -> None:
    """Forgets all blocks; what nobody has is freed."""
    _blocks.clear()
