"""Buffers that know what is in them: accesses out of bounds, reads of what nothing wrote, and races are errors."""

from dataclasses import dataclass, replace

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.mlir import ir

SIGNED = dict.fromkeys((torch.bool, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2), torch.int8)
SIGNED |= {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
SIGNED |= {torch.complex32: torch.int32, torch.complex64: torch.int64}
NOBODY, SEVERAL = -1, -2  # instead of a program's number


class Memory:
    """The elements of a strided tensor as a flat buffer that begins at its first one. Booleans and floats of 8 bits are bytes,
    unsigned integers signed ones, complex numbers integers of their bits.

    `written`: whether the tensor has contents. `begin` is to be called before each launch: what earlier ones did is then in order.
    """

    def __init__(self, tensor: torch.Tensor, *, written: bool = True):
        spans = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())]
        extent = sum(spans) + 1 if tensor.numel() else 0
        flat = tensor.as_strided([extent], [1])
        self.tensor, self.flat = tensor, flat.view(SIGNED.get(tensor.dtype, tensor.dtype))
        self.reachable = torch.zeros(extent, dtype=torch.bool)
        self.reachable.as_strided(tensor.shape, tensor.stride()).fill_(True)
        self.written = torch.full([extent], written)
        self.begin()

    def begin(self) -> None:
        extent = len(self.flat)
        self.writer, self.reader = (torch.full([extent], NOBODY, dtype=torch.int64) for _ in range(2))
        self.added = torch.zeros(extent, dtype=torch.bool)  # by an atomic


@dataclass(frozen=True)
class Pointer:
    """Addresses into one buffer: `offset` in elements. `dtype` is that of the elements, if it is not the buffer's."""

    memory: Memory
    offset: torch.Tensor
    dtype: torch.dtype | None = None

    def moved(self, by: torch.Tensor) -> "Pointer":
        return replace(self, offset=self.offset + by)

    def reshaped(self, change) -> "Pointer":
        return replace(self, offset=change(self.offset))

    def cast(self, dtype: torch.dtype) -> "Pointer":
        return replace(self, dtype=dtype)

    @property
    def data(self) -> torch.Tensor:
        return self.memory.flat if self.dtype is None else self.memory.flat.view(self.dtype)


@dataclass(frozen=True)
class Either:
    """In programs where `condition` holds the one pointer, in the others the other: of a branch that gives addresses."""

    condition: torch.Tensor
    one: "Pointer | Either"
    other: "Pointer | Either"

    @property
    def offset(self) -> torch.Tensor:
        """Of the one: both have its shape."""
        return self.one.offset

    def moved(self, by: torch.Tensor) -> "Either":
        return replace(self, one=self.one.moved(by), other=self.other.moved(by))

    def reshaped(self, change) -> "Either":
        return replace(self, one=self.one.reshaped(change), other=self.other.reshaped(change))

    def cast(self, dtype: torch.dtype) -> "Either":
        return replace(self, one=self.one.cast(dtype), other=self.other.cast(dtype))

    def split(self, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The lanes of `mask` of either, over programs first."""
        condition = self.condition.reshape([-1] + [1] * (mask.dim() - 1)).expand(mask.shape)
        return mask & condition, mask & ~condition


def _places(op: ir.Operation, pointer: Pointer, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The places in the mask, and the number of the program of each."""
    programs = torch.arange(len(mask)).reshape([-1] + [1] * (mask.dim() - 1)).expand(mask.shape)
    offset = pointer.offset.expand(mask.shape)[mask]
    wrong = (offset < 0) | (offset >= len(pointer.memory.flat))
    wrong[~wrong] = ~pointer.memory.reachable[offset[~wrong]]
    if wrong.any():
        number = int(programs[mask][wrong][0])
        where = f"element {int(offset[wrong][0])} of a buffer of {tuple(pointer.memory.tensor.shape)}"
        raise error(op, f"is out of bounds in program {number}: {where}, strides {pointer.memory.tensor.stride()}")
    return offset, programs[mask]


def load(op: ir.Operation, pointer: Pointer | Either, mask: torch.Tensor) -> torch.Tensor:
    """The elements; what the mask leaves out is junk, on purpose unlike any identity."""
    if isinstance(pointer, Either):
        ones, others = pointer.split(mask)
        return torch.where(ones, load(op, pointer.one, ones), load(op, pointer.other, others))
    offset, programs = _places(op, pointer, mask)
    memory = pointer.memory
    if not memory.written[offset].all():
        raise error(op, f"reads memory that nothing wrote, element {int(offset[~memory.written[offset]][0])}")
    others = (memory.writer[offset] != NOBODY) & (memory.writer[offset] != programs)
    if (others | memory.added[offset]).any():
        raise error(op, "reads what another program writes in the same launch")
    known = memory.reader[offset]
    memory.reader[offset] = torch.where((known == NOBODY) | (known == programs), programs, SEVERAL)
    _mark_shared(memory.reader, offset, programs)
    data = pointer.data
    junk = float("nan") if data.dtype.is_floating_point else torch.iinfo(data.dtype).max // 3
    result = torch.full(mask.shape, junk, dtype=data.dtype)
    result[mask] = data[offset]
    return result


def _mark_shared(owner: torch.Tensor, offset: torch.Tensor, programs: torch.Tensor) -> None:
    """Places that several programs of this access touch."""
    owner[offset[owner[offset] != programs]] = SEVERAL


def store(op: ir.Operation, pointer: Pointer | Either, value: torch.Tensor, mask: torch.Tensor) -> None:
    if isinstance(pointer, Either):
        for side, lanes in zip((pointer.one, pointer.other), pointer.split(mask)):
            store(op, side, value, lanes)
        return
    offset, programs = _places(op, pointer, mask)
    memory = pointer.memory
    content, own = (
        value.expand(mask.shape)[mask],
        (memory.writer[offset] == NOBODY) | (memory.writer[offset] == programs),
    )
    shared = ~own  # what several write alike is no conflict: one value put at indices from data
    if memory.added[offset].any() or not _same(pointer.data[offset[shared]], content[shared]):
        raise error(op, "writes a place that another program writes, without an atomic")
    if ((memory.reader[offset] != NOBODY) & (memory.reader[offset] != programs)).any():
        raise error(op, "writes what another program reads in the same launch")
    memory.writer[offset] = torch.where(own, programs, SEVERAL)
    _mark_shared(memory.writer, offset, programs)
    memory.written[offset] = True
    pointer.data[offset] = content
    if not _same(pointer.data[offset], content):
        raise error(op, "writes a place twice, without an atomic")


def _same(some: torch.Tensor, others: torch.Tensor) -> bool:
    """Whether all bits are equal."""
    return torch.equal(*(x.contiguous().view(torch.uint8) for x in (some, others)))


# Numbers of Triton's RMWOp -> how `index_reduce_` calls it, and whether it is unsigned.
MODES = {
    4: ("sum", False),
    5: ("sum", False),
    6: ("amax", False),
    7: ("amin", False),
    8: ("amax", True),
    9: ("amin", True),
}


def atomic(op: ir.Operation, pointer: Pointer | Either, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The contents before: every lane sees what was there before the first."""
    if isinstance(pointer, Either):
        ones, others = pointer.split(mask)
        return torch.where(ones, atomic(op, pointer.one, value, ones), atomic(op, pointer.other, value, others))
    number = op.attributes["atomic_rmw_op"].value
    if number not in MODES:
        raise error(op, f"has mode {number}, which the interpreter lacks")
    offset = _atomic_places(op, pointer, mask)
    mode, unsigned = MODES[number]
    data, content = pointer.data, value.expand(mask.shape)[mask]
    before = torch.zeros(mask.shape, dtype=data.dtype)
    before[mask] = data[offset]
    if unsigned:  # the order of unsigned numbers is that of signed ones with the sign bit turned
        low = torch.iinfo(data.dtype).min
        content, flipped = content ^ low, data ^ low
        data.copy_(flipped.scatter_reduce(0, offset, content, mode) ^ low)
    else:
        data.scatter_reduce_(0, offset, content, mode)
    return before


def _atomic_places(op: ir.Operation, pointer: Pointer, mask: torch.Tensor) -> torch.Tensor:
    """The places in the mask, which an atomic works on."""
    offset, _ = _places(op, pointer, mask)
    memory = pointer.memory
    if (memory.writer[offset] != NOBODY).any() or (memory.reader[offset] != NOBODY).any():
        raise error(op, "works on a place that a plain access touches in the same launch")
    if not memory.written[offset].all():
        raise error(op, "adds to memory that nothing wrote")
    memory.added[offset] = True
    return offset


def compare_and_swap(
    op: ir.Operation, pointer: Pointer | Either, expected: torch.Tensor, wanted: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """What is `expected` becomes what is `wanted`, one lane after the other; the contents before."""
    if isinstance(pointer, Either):
        ones, others = pointer.split(mask)
        first = compare_and_swap(op, pointer.one, expected, wanted, ones)
        return torch.where(ones, first, compare_and_swap(op, pointer.other, expected, wanted, others))
    places, data = _atomic_places(op, pointer, mask).tolist(), pointer.data
    seen = []
    for place, old, new in zip(places, *(x.expand(mask.shape)[mask].tolist() for x in (expected, wanted))):
        seen.append(int(data[place]))
        if seen[-1] == old:
            data[place] = new
    before = torch.zeros(mask.shape, dtype=data.dtype)
    before[mask] = torch.tensor(seen, dtype=data.dtype)
    return before
