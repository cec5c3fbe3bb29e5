"""How IR values stand as torch values: element types, layouts, and what memory holds before it is written.

A scalar of a region is a tensor with one axis a range around it, the innermost first, so that a value of an outer
region broadcasts into an inner one as it is. A signless integer is signed in torch. A tensor value is a torch tensor of
the same sizes and strides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..ir.scalar_types import SCALAR_TYPES
from ..ir.types import byte_width
from ..mlir import ir
from .errors import InterpreterError
from .maps import evaluate
from .numerics.precision import WIDE_BYTES, computed, is_double

# Element or scalar type -> dtype. Unsigned elements have torch's unsigned dtypes in memory, and signed ones as scalars.
DTYPES = {"index": torch.int64} | {
    element: getattr(torch, name) for name, (_, element) in SCALAR_TYPES.items() if hasattr(torch, name)
}

SIGNED = {
    torch.uint8: torch.int8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}

POISON = 0xFF  # every byte of memory nobody has written: NaN in floats, -1 in integers (an index out of range)


@dataclass(frozen=True)
class Buffer:
    """A memref: the elements it shows, and the place in storage (in elements) that offsets in layouts count from."""

    tensor: torch.Tensor
    origin: int


@dataclass(frozen=True)
class Tile:
    """A tensor made at every point of a kernel: `data` has the tensor's own `rank` axes, then those of the points."""

    data: torch.Tensor
    rank: int


def dtype_of(type_: ir.Type) -> torch.dtype:
    """The torch dtype that values of an element or scalar type are computed in. Raises as `stored_dtype` does."""
    return computed(stored_dtype(type_))


def stored_dtype(type_: ir.Type) -> torch.dtype:
    """The torch dtype of an element or scalar type. Raises `InterpreterError`, without a place, for a type torch lacks."""
    dtype = DTYPES.get(str(type_))
    if dtype is None:
        raise InterpreterError(f"has a value of type {type_}, which no dtype of PyTorch is")
    return dtype


def signed(tensor: torch.Tensor) -> torch.Tensor:
    """The same bits as signed integers, if `tensor` is unsigned: what a read gives."""
    return tensor.view(SIGNED[tensor.dtype]) if tensor.dtype in SIGNED else tensor


def fill_poison(tensor: torch.Tensor) -> None:
    """Makes every element of `tensor` poison."""
    if tensor.numel():
        tensor.copy_(torch.full((tensor.element_size(),), POISON, dtype=torch.uint8).view(tensor.dtype)[0])


def fresh(sizes: Sequence[int], element: ir.Type, strides: Sequence[int], offset: int = 0) -> torch.Tensor:
    """A poisoned tensor in storage of its own, `offset` elements into it."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 0
    count = (offset + span) * byte_width(element) * byte_room()
    storage = torch.full((count,), POISON, dtype=torch.uint8).view(dtype_of(element))
    return storage.as_strided(tuple(sizes), tuple(strides), offset)


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the storage ends before the tensor does: a graph gave it back (`resize_storage_bytes_`), and nothing may look there."""
    if tensor.numel() == 0:
        return False
    last = tensor.storage_offset() + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes()


def left_of(tensor: torch.Tensor) -> torch.Tensor:
    """Gives what can be compared of a tensor after a run: nothing of one whose memory was given back."""
    return tensor.new_empty(0) if is_freed(tensor) else tensor


def byte_room() -> int:
    """How many bytes of storage a byte of the IR's memory has."""
    return WIDE_BYTES if is_double() else 1


def strides_of(layout: ir.AffineMap, symbols: Sequence[int]) -> tuple[list[int], int]:
    """Strides and offset of a layout map, in elements. Raises ValueError for a map that is not strided."""
    rank = layout.n_dims

    def at(index: Sequence[int]) -> int:
        return int(evaluate(layout.results[0], index, symbols))

    offset = at([0] * rank)
    units = [[int(i == k) for i in range(rank)] for k in range(rank)]
    strides = [at(unit) - offset for unit in units]
    probes = [[2] * rank, [3 + 5 * k for k in range(rank)], [17 + 3 * k for k in range(rank)]]
    if any(at(p) != offset + sum(i * s for i, s in zip(p, strides)) for p in probes):
        raise ValueError(f"layout {layout} is not strided")
    return strides, offset


def layout_strides(type_: ir.Type, symbols: Sequence[int]) -> tuple[list[int], int]:
    """Strides and offset, in elements, of a ranked tensor or memref type. Raises ValueError if it is not strided."""
    if isinstance(type_, ir.MemRefType):
        if len(type_.affine_map.results) != 1:  # the identity: row-major
            return row_major(type_.shape), 0
        return strides_of(type_.affine_map, symbols)
    if type_.encoding is not None:
        return strides_of(ir.AffineMapAttr(type_.encoding.map).value, symbols)
    return row_major(type_.shape), 0


def row_major(sizes: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor, as torch gives them."""
    return list(torch.empty(tuple(sizes), device="meta").stride())


def same_strides(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether `tensor` has these strides in every dimension where a stride says something."""
    return tensor.numel() == 0 or all(
        size <= 1 or got == want for size, got, want in zip(tensor.shape, tensor.stride(), strides)
    )
