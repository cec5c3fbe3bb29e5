"""Large results lie in memory that earlier results of the same size had, once nobody has those any more.

The C library does not give the same block again: what it cuts off for alignment (before glibc 2.39) or gives back to the system makes the
next block of a size lie elsewhere. So results wander through memory that is in no cache, and that is often not there yet, a page fault
every 4 KiB. Here a block is a storage that stays when a result dies; as long as anything else refers to the storage (a tensor, a view, an
array of NumPy's), it is not given again. It is an ordinary storage: it can be resized, shared between processes, or saved.

PyTorch's private count of a storage's users is named here and nowhere else. Checked on torch 2.11 to 2.14.
"""

import threading
from collections.abc import Sequence
from sys import getrefcount

import torch
from torch._C import _storage_Use_Count as users_of

from .tensors import empty, view

LEAST = 1 << 20  # bytes of a block worth keeping
LIMIT = 64 << 20  # bytes of all blocks that are kept, in use or not
PATIENCE = 256  # blocks taken, after which one that was not is given up for another

Key = tuple[int, torch.dtype, bool]  # bytes, dtype, whether made in inference mode, whose tensors are of another kind


class Block:
    """`tensor` holds the memory and is never handed out. `taken`: when the memory was last given."""

    def __init__(self, key: Key, tensor: torch.Tensor, taken: int):
        self.key, self.tensor, self.taken = key, tensor, taken
        self.storage = tensor.untyped_storage()  # the one object by which Python knows it: who has that is not counted apart
        self.alone = self._users()

    def _users(self) -> tuple[int, int, int]:
        """Tensors that share the storage, references to it in Python, and where the memory is: it moves when it is resized, or shared with
        another process, which may then still have it."""
        return users_of(self.storage._cdata), getrefcount(self.storage), self.tensor.data_ptr()

    @property
    def free(self) -> bool:
        """Whether nobody has it."""
        return self._users() == self.alone


_blocks: list[Block] = []
_clock = 0
_busy = threading.Lock()  # never waited for: a fork may copy it locked


def empty_kept(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, size: int) -> torch.Tensor:
    """A tensor of unspecified contents, which has at most `size` bytes from its first element to its last."""
    if not LEAST <= size <= LIMIT or not _busy.acquire(False):
        return empty(sizes, strides, dtype)
    try:
        key = (size, dtype, torch.is_inference_mode_enabled())
        block = _taken(key) or _made(key)
        return empty(sizes, strides, dtype) if block is None else view(block.tensor, sizes, strides, 0)
    finally:
        _busy.release()


def _taken(key: Key) -> Block | None:
    """A block that is free; always the same one of several, which is the likeliest to be in a cache."""
    global _clock
    _clock += 1
    for block in _blocks:
        if block.key == key and block.free:
            block.taken = _clock
            return block
    return None


def _made(key: Key) -> Block | None:
    """A new block, if there is room for it."""
    room = LIMIT - sum(block.key[0] for block in _blocks)
    for block in sorted(_blocks, key=lambda block: block.taken):
        if room >= key[0] or _clock - block.taken <= PATIENCE:
            break
        _blocks.remove(block)
        room += block.key[0]
    if room < key[0]:
        return None
    block = Block(key, empty((key[0] // key[1].itemsize,), (1,), key[1]), _clock)
    _blocks.append(block)
    return block


def release_blocks() -> None:
    """Forgets all blocks; what nobody has is freed."""
    _blocks.clear()
