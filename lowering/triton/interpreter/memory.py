"""Buffers that know what is in them: accesses out of bounds, reads of what nothing wrote, and races are errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.mlir import ir

SIGNED = dict.fromkeys((torch.bool, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2), torch.int8)
SIGNED |= {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
SIGNED |= {torch.complex32: torch.int32, torch.complex64: torch.int64}
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
# Bytes that hold a pattern by design only: of floats one element, of narrow elements all of a word.
TELLING, WORD = (torch.float32, torch.float64, torch.int64), 8
NOBODY, SEVERAL = -1, -2  # instead of a program's number
PENDING = 1 << 22  # reads that wait to be marked, at most: 64 MB


class Marks:
    """The marks of one launch on each granule of a run of memory: a piece that no buffer in it has only a part of.

    Most runs are only read, or only written: reads are marked where something is written later, and what nothing marked is not looked at.
    """

    def __init__(self, extent: int, written: bool):
        self.written, self.whole = torch.full([extent], written), written  # `whole`: all of it, from the start
        self.begin()

    def begin(self) -> None:
        extent = len(self.written)
        self.writer, self._reader = (torch.full([extent], NOBODY, dtype=torch.int64) for _ in range(2))
        self.added = torch.zeros(extent, dtype=torch.bool)  # by an atomic
        self.reads = self.writes = self.adds = False  # whether there is any
        self._unmarked: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._pending = 0

    def read(self, places: torch.Tensor, owners: torch.Tensor) -> None:
        """Notes that programs `owners` read at `places`."""
        self.reads = True
        self._unmarked.append((places, owners))
        self._pending += len(places)
        if self._pending > PENDING:
            self.reader()

    def reader(self) -> torch.Tensor:
        """The program that reads each granule, of all reads until now."""
        for places, owners in self._unmarked:
            known = self._reader[places]
            self._reader[places] = torch.where((known == NOBODY) | (known == owners), owners, SEVERAL)
            _mark_shared(self._reader, places, owners)
        self._unmarked, self._pending = [], 0
        return self._reader


class Memory:
    """The elements of a strided tensor as a flat buffer that begins at its first one. Booleans and floats of 8 bits are bytes,
    unsigned integers signed ones, complex numbers integers of their bits, two where they have 128.

    `written`: whether the tensor has contents. `junk`: what each 8 bytes of memory begin with, if that is so, which nothing wrote. Of elements
    of fewer than 32 bits, and integers of 32, all in such 8 bytes have to look so: some of them may by chance.
    `begin` is to be called before each launch: what earlier ones did is then in order. Buffers of one launch that overlap have to `share`.
    """

    def __init__(self, tensor: torch.Tensor, *, written: bool = True, junk: bytes = b""):
        words = torch.view_as_real(tensor).view(torch.int64) if tensor.dtype == torch.complex128 else tensor
        spans = [(size - 1) * stride for size, stride in zip(words.shape, words.stride())]
        extent = sum(spans) + 1 if words.numel() else 0
        flat = words.as_strided([extent], [1])
        self.tensor, self.flat = tensor, flat.view(SIGNED.get(words.dtype, words.dtype))
        self.reachable = torch.zeros(extent, dtype=torch.bool)
        self.reachable.as_strided(words.shape, words.stride()).fill_(True)
        self.gaps = not bool(self.reachable.all())
        self.marks, self.first, self.granules = Marks(extent, written), 0, 1
        self.junk: torch.Tensor | None = None  # the elements of a word, as integers
        if junk and self.flat.data_ptr() % self.flat.itemsize == 0:
            word = bytearray(junk[: self.flat.itemsize if self.flat.dtype in TELLING else WORD])
            self.junk = torch.frombuffer(word, dtype=INTEGERS[self.flat.itemsize])

    def begin(self) -> None:
        self.marks.begin()

    @property
    def bytes(self) -> tuple[int, int]:
        """The addresses at which it begins and ends."""
        start = self.flat.data_ptr()
        return start, start + len(self.flat) * self.flat.itemsize

    def granules_of(self, offset: torch.Tensor) -> torch.Tensor:
        """The granules of the elements at `offset`, over another, last dimension."""
        if self.granules == 1:
            return (offset + self.first if self.first else offset)[:, None]
        first = (self.first + offset * self.granules)[:, None]
        return first + torch.arange(self.granules)

    def unwritten(self, offset: torch.Tensor) -> torch.Tensor:
        """Which of the elements at `offset` nothing wrote."""
        found = ~self.marks.written[self.granules_of(offset)].all(-1)
        return found if self.junk is None else found | self._is_junk(offset, self.junk)

    def _is_junk(self, offset: torch.Tensor, junk: torch.Tensor) -> torch.Tensor:
        """Which of the elements at `offset` lie in a word that is `junk`. Those of a word that is not all here do not."""
        bits, count = self.flat.view(junk.dtype), len(junk)
        place = (self.flat.data_ptr() // self.flat.itemsize + offset) % count
        found = bits[offset] == junk[place]
        if count > 1 and found.any():
            start = (offset - place)[found]
            whole = (start >= 0) & (start + count <= len(bits))
            words = bits[(start[:, None] + torch.arange(count)).clamp(0, len(bits) - 1)]
            found[found.clone()] = whole & (words == junk).all(-1)
        return found


def share(memories: Sequence[Memory]) -> None:
    """Has those that overlap, whatever their types and shapes, share their marks. All of them have contents."""
    runs: list[list[Memory]] = []
    end = 0
    for memory in sorted((m for m in memories if len(m.flat)), key=lambda m: m.bytes):
        if not runs or memory.bytes[0] >= end:
            runs.append([])
        runs[-1].append(memory)
        end = max(end, memory.bytes[1])
    for run in runs:
        start, stop = run[0].bytes[0], max(m.bytes[1] for m in run)
        granule = gcd(*(n for m in run for n in (m.flat.itemsize, m.bytes[0] - start)))
        marks = Marks((stop - start) // granule, True)
        for m in run:
            m.marks, m.first, m.granules = marks, (m.bytes[0] - start) // granule, m.flat.itemsize // granule


@dataclass(frozen=True)
class Pointer:
    """Addresses into one buffer: `offset` in elements, of programs from number `first` on. `dtype` is that of the elements, if it is not the
    buffer's."""

    memory: Memory
    offset: torch.Tensor
    dtype: torch.dtype | None = None
    first: int = 0

    def moved(self, by: torch.Tensor) -> "Pointer":
        return replace(self, offset=self.offset + by)

    def reshaped(self, change) -> "Pointer":
        return replace(self, offset=change(self.offset))

    def cast(self, dtype: torch.dtype) -> "Pointer":
        return replace(self, dtype=dtype)

    @property
    def address(self) -> torch.Tensor:
        return self.memory.flat.data_ptr() + self.offset * self.data.itemsize

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

    @property
    def address(self) -> torch.Tensor:
        one = self.one.address
        return torch.where(self.condition.reshape([-1] + [1] * (one.dim() - 1)), one, self.other.address)

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


def _chosen(value: torch.Tensor, mask: torch.Tensor, whole: bool) -> torch.Tensor:
    """The elements of `value` in the mask, in a row; `whole`: that is all of it, and more than one, whose strides tell nothing."""
    value = value.expand(mask.shape)
    return value.reshape(-1) if whole else value[mask]


def _places(op: ir.Operation, pointer: Pointer, mask: torch.Tensor, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The places in the mask, and the number of the program of each."""
    programs = torch.arange(pointer.first, pointer.first + len(mask)).reshape([-1] + [1] * (mask.dim() - 1))
    offset, programs = _chosen(pointer.offset, mask, whole), _chosen(programs, mask, whole)
    memory = pointer.memory
    if len(offset):
        low, high = (int(x) for x in offset.aminmax())
        inside = low >= 0 and high < len(memory.flat)
        if not inside or (memory.gaps and not memory.reachable[offset].all()):
            raise _out_of_bounds(op, memory, offset, programs)
    return offset, programs


def _out_of_bounds(op: ir.Operation, memory: Memory, offset: torch.Tensor, programs: torch.Tensor) -> Exception:
    wrong = (offset < 0) | (offset >= len(memory.flat))
    wrong[~wrong] = ~memory.reachable[offset[~wrong]]
    where = f"element {int(offset[wrong][0])} of a buffer of {tuple(memory.tensor.shape)}"
    return error(
        op, f"is out of bounds in program {int(programs[wrong][0])}: {where}, strides {memory.tensor.stride()}"
    )


def load(op: ir.Operation, pointer: Pointer | Either, mask: torch.Tensor) -> torch.Tensor:
    """The elements; what the mask leaves out is junk, on purpose unlike any identity."""
    if isinstance(pointer, Either):
        ones, others = pointer.split(mask)
        return torch.where(ones, load(op, pointer.one, ones), load(op, pointer.other, others))
    whole = mask.numel() > 1 and bool(mask.all())
    offset, programs = _places(op, pointer, mask, whole)
    memory, data = pointer.memory, pointer.data
    if not memory.marks.whole or memory.junk is not None:
        unwritten = memory.unwritten(offset)
        if unwritten.any():
            raise error(op, f"reads memory that nothing wrote, element {int(offset[unwritten][0])}")
    marks, places, owners = _marked(memory, offset, programs)
    if marks.writes or marks.adds:
        others = (marks.writer[places] != NOBODY) & (marks.writer[places] != owners)
        if (others | marks.added[places]).any():
            raise error(op, "reads what another program writes in the same launch")
    marks.read(places, owners)
    if whole:
        return data[offset].reshape(mask.shape)
    junk = float("nan") if data.dtype.is_floating_point else torch.iinfo(data.dtype).max // 3
    result = torch.full(mask.shape, junk, dtype=data.dtype)
    result[mask] = data[offset]
    return result


def _marked(memory: Memory, offset: torch.Tensor, programs: torch.Tensor) -> tuple[Marks, torch.Tensor, torch.Tensor]:
    """The marks of the elements at `offset`: which granules, and the program at each."""
    if memory.granules == 1:
        return memory.marks, memory.granules_of(offset).flatten(), programs
    places = memory.granules_of(offset)
    return memory.marks, places.flatten(), programs[:, None].expand(places.shape).flatten()


def _mark_shared(owner: torch.Tensor, offset: torch.Tensor, programs: torch.Tensor) -> None:
    """Places that several programs of this access touch."""
    owner[offset[owner[offset] != programs]] = SEVERAL


def store(op: ir.Operation, pointer: Pointer | Either, value: torch.Tensor, mask: torch.Tensor) -> None:
    if isinstance(pointer, Either):
        for side, lanes in zip((pointer.one, pointer.other), pointer.split(mask)):
            store(op, side, value, lanes)
        return
    whole = mask.numel() > 1 and bool(mask.all())
    offset, programs = _places(op, pointer, mask, whole)
    content, data = _chosen(value, mask, whole), pointer.data
    marks, places, owners = _marked(pointer.memory, offset, programs)
    own = None  # everywhere
    if marks.writes:
        own = (marks.writer[places] == NOBODY) | (marks.writer[places] == owners)
        # What several write alike is no conflict: one value put at indices from data.
        shared = ~own.reshape(len(offset), pointer.memory.granules).all(-1)
        if not _same(data[offset[shared]], content[shared]):
            raise error(op, "writes a place that another program writes, without an atomic")
    if marks.adds and marks.added[places].any():
        raise error(op, "writes a place that another program writes, without an atomic")
    if marks.reads:
        reader = marks.reader()[places]
        if ((reader != NOBODY) & (reader != owners)).any():
            raise error(op, "writes what another program reads in the same launch")
    marks.writes = True
    marks.writer[places] = owners if own is None else torch.where(own, owners, SEVERAL)
    _mark_shared(marks.writer, places, owners)
    marks.written[places] = True
    data[offset] = content
    if not _same(data[offset], content):
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
    offset, programs = _places(op, pointer, mask, False)
    marks, places, _ = _marked(pointer.memory, offset, programs)
    if (marks.writer[places] != NOBODY).any() or (marks.reader()[places] != NOBODY).any():
        raise error(op, "works on a place that a plain access touches in the same launch")
    if pointer.memory.unwritten(offset).any():
        raise error(op, "adds to memory that nothing wrote")
    marks.added[places] = True
    marks.adds = True
    return offset


def compare_and_swap(
    op: ir.Operation, pointer: Pointer | Either, expected: torch.Tensor, wanted: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Replaces contents equal to `expected` by `wanted`, one lane after the other; returns the contents before."""
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
