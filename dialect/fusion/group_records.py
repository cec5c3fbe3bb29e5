"""Records of groups of computes: a group, how a member fits it, why one does not, partial results beside it."""

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


@dataclass
class Fit:
    """How a member can join a group: the member's dim for each row that stays, and those rows."""

    row_dims: tuple[int, ...]
    kept: list[int]
