"""Memory of the target 'interpret': all of it begins as one pattern, by which a read of what nothing wrote is known.

The pattern is a NaN of 32 and of 64 bits, with a payload that nothing else makes, and a large negative integer of 64 bits.
"""

import ctypes
import weakref
from collections.abc import Sequence

import torch

from . import allocation, cpu_arena

PATTERN = bytes.fromhex("5ba3ffff") * 2
_blocks: dict[int, "weakref.ref[torch.Tensor]"] = {}  # address -> a block that is still there


def _filled(block: torch.Tensor) -> torch.Tensor:
    address, size = block.data_ptr(), block.untyped_storage().nbytes()
    if size:
        ctypes.memmove(address, PATTERN * (size // len(PATTERN) + 1), size)
        _blocks[address] = weakref.ref(block)
    return block


def empty(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of unspecified contents."""
    return _filled(allocation.empty(sizes, strides, dtype))


def take_arena(size: int) -> torch.Tensor:
    """`arenas.take_arena`; what an earlier call left in the block is no longer there."""
    return _filled(cpu_arena.take_arena(size))


def begins_unwritten(address: int) -> bool:
    """Whether `address` lies in memory that was handed out here. Elsewhere the pattern may stand because memory is used again."""
    for start, known in list(_blocks.items()):
        block = known()
        if block is None or block.data_ptr() != start:
            del _blocks[start]
        elif start <= address < start + block.untyped_storage().nbytes():
            return True
    return False
