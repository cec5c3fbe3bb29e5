"""Records of groups of computes: a group, how large its kernel is, how a member fits it, why one does not, partial results beside it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..mlir import ir
from ..remarks.attribute import place
from ..remarks.record import MISSED, Remark
from .chunk_sizes import ROW_CHUNK, Chunks
from .members import NO_DIM, Member, Pattern


def not_fused(op: ir.Operation, other: ir.Operation, reason: str, cost: int) -> Remark:
    """Why `op` did not join the group of `other`, and the bytes that are read or written again for that."""
    return Remark("form-kernels", MISSED, "not fused", reason, place(op), place(other), cost)


def chunks_of_rows(members: Iterable[Member]) -> set[int]:
    """The chunks of rows that computes are marked to be of."""
    marks = [member.body.op.attributes for member in members]
    return {attributes[ROW_CHUNK].value for attributes in marks if ROW_CHUNK in attributes}


@dataclass
class Beside:
    """Partial results in the kernel of a group over the rows they reduce.

    `rows[k]`: the group's row that runs along range k of the reduction, None where that has one point. `columns`: the group's other rows
    -> the dims of the partial results' domain that they are; none where those are loops in the kernel.
    """

    chunks: Chunks
    rows: tuple[int | None, ...]
    columns: dict[int, int]
    partials: list["Group"]


@dataclass(frozen=True)
class Again:
    """A member of a group where its elements are computed once more. `places`: the dims of its result longer than 1 -> the kernel's row,
    or, from `rows` on, the loop in it. `ops`: it, and the members that it reads at its own point -> ops of an element at another row,
    and at another place in a row; values of a row are known there. What these compute once more is counted with them."""

    places: dict[int, int]
    rows: int
    ops: dict[ir.Value, tuple[int, int]]

    @property
    def is_of_row(self) -> bool:
        return all(place < self.rows for place in self.places.values())

    def cost(self, in_row: bool) -> int:
        return sum(inside if in_row else outside for outside, inside in self.ops.values())

    def meets(self, pattern: Pattern, reader: dict[int, int]) -> tuple[bool, bool]:
        """Whether a read runs over the reader's own row, and whether at its own point."""
        inside = here = True
        for dim, own in self.places.items():
            (at, *others) = pattern[dim].counted
            if others or at is None or reader.get(at) != own:
                here, inside = False, inside and own >= self.rows
        return inside, here


class WrittenOps:
    """How many ops members are in their kernel, at most: what one reads at another point than its own is computed there once more, with all
    that it reads, and so is an element that it reads in a loop or under a condition. `members`: in program order, with their rows."""

    def __init__(self, members: Iterable[tuple[Member, tuple[int, ...]]] = ()):
        self.ops = 0
        self.again: dict[ir.Value, Again] = {}
        for member, row_dims in members:
            self.add(member, row_dims)

    def add(self, member: Member, row_dims: tuple[int, ...]) -> None:
        self.ops, self.again[member.result] = self.with_member(member, row_dims)

    def with_member(self, member: Member, row_dims: tuple[int, ...]) -> tuple[int, Again]:
        """The ops with one more, and what its own elements are where they are computed once more."""
        inner = [dim for dim in member.long_dims if dim not in row_dims]
        places = {dim: place for place, dim in enumerate((*row_dims, *inner)) if dim != NO_DIM}
        written = Again(places, len(row_dims), {})
        top, seen = member.body.op.regions[0].blocks[0], set[tuple]()
        ops = outside = in_row = member.body.ops
        for read, pattern in member.patterns:
            source, key = self.again.get(read.buffer), (read.op.block, *read.op.operands)
            if source is None or key in seen:
                continue
            seen.add(key)
            inside, here = source.meets(pattern, places)
            if here and read.op.block == top:
                written.ops.update(source.ops)
                continue
            if not (here and source.is_of_row):
                ops += source.cost(inside)
            outside += source.cost(False)
            in_row += source.cost(inside)
        written.ops[member.result] = outside, 0 if written.is_of_row else in_row
        return self.ops + ops, written


@dataclass
class Group:
    """Members of one kernel. `rows` are the sizes of its parallel domain; member m runs at row r with its dim `m.row_dims[r]`."""

    number: int
    rows: list[ir.AffineExpr]
    members: list[Member] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    columns: bool = False  # its reductions run across memory, the rows along it
    # Tensors read from outside -> for each of their dims, the row that indexes it.
    reads: dict[ir.Value, Pattern] = field(default_factory=dict)
    ops: int = 0
    written: WrittenOps = field(default_factory=WrittenOps)
    beside: Beside | None = None  # partial results in the same kernel, which then runs over chunks of the rows

    @property
    def reduces(self) -> bool:
        return any(member.reduces for member in self.members)

    @property
    def is_measured(self) -> bool:
        """Whether one of its members is a product that was measured as a kernel, alone but for what is computed from it."""
        return any(member.is_measured for member in self.members)

    @property
    def shares(self) -> bool:
        """Whether some of its members take what others reduce, which is written for each of them, and is the same."""
        return any(NO_DIM in member.row_dims for member in self.members)

    def note_reads(self, member: Member) -> None:
        rows = {dim: r for r, dim in enumerate(member.row_dims)}
        for read, pattern in member.patterns:
            self.reads.setdefault(read.buffer, tuple(digits.renamed(rows) for digits in pattern))

    def narrow(self, kept: list[int]) -> None:
        """Keeps the rows numbered `kept`; the others become inner dims of the members."""
        self.rows = [self.rows[r] for r in kept]
        for member in self.members:
            member.row_dims = tuple(member.row_dims[r] for r in kept)
        self.reads.clear()
        for member in self.members:
            self.note_reads(member)
        self.written = WrittenOps((member, member.row_dims) for member in self.members)


@dataclass
class Fit:
    """How a member can join a group: the member's dim for each row that stays, and those rows."""

    row_dims: tuple[int, ...]
    kept: list[int]
