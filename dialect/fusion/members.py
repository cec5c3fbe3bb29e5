"""Computes as members of a kernel: how a member's reads sit over its own domain, and which of its dims are the kernel's rows."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ..analysis.affine.fastest_dim import fastest_dim
from ..analysis.affine.indexing import Indexing, digits_of
from ..analysis.affine.linear_forms import linear
from ..analysis.bodies.body_summary import Access, Body
from ..analysis.bodies.body_tree import sizes_of
from ..analysis.bodies.costs import TRANSCENDENTAL, tensor_bytes
from ..ir.attribute_names import TUNED_PRODUCT
from ..ir.memory_ops import WHOLE, StoreOp
from ..ir.shapes import constant, expr
from ..ir.types import byte_width
from ..mlir import ir
from .attention_parts import Sides
from .chunk_sizes import Chunks

NO_DIM = -1
TILE = 1 << 16  # bytes of a row that is kept near the processor


@dataclass(frozen=True)
class Digits:
    """The dims of a reader's domain (rows of a kernel) that an index is computed of: one, or those that it counts through, the last one fastest;
    None for what is no dim of the domain. `form`: the index as an expression of these, where it does not count through them; else empty."""

    dims: tuple[int | None, ...] = (None,)
    form: str = ""

    @staticmethod
    def of(dims: Sequence[int | None]) -> "Digits":
        """Those of an index that counts through `dims`; of none, as of a constant, it is no dim of the domain."""
        return Digits(tuple(dims) or (None,))

    @property
    def counted(self) -> tuple[int | None, ...]:
        """The dims that the index counts through."""
        return (None,) if self.form else self.dims

    def renamed(self, names: Mapping[int, int]) -> "Digits":
        return Digits(tuple(None if dim is None else names.get(dim) for dim in self.dims), self.form)


# For each dimension of a tensor read, what indexes it. Two dims of a tensor at the quotient and the remainder of one index have the same.
Pattern = tuple[Digits, ...]


@dataclass
class Member:
    """One compute (scan, scatter) to be placed in a kernel.

    `row_dims[r]` is the dim of its result that runs with row r of the kernel, `NO_DIM` where it is the same at all of the row's points. Its
    other dims of a size other than 1 are its inner dims.
    """

    number: int  # position among the members of the graph
    body: Body
    sizes: list[ir.AffineExpr]
    patterns: list[tuple[Access, Pattern]]
    row_dims: tuple[int, ...] = ()
    chunks: Chunks | None = None  # of partial results: how the whole reduction was cut
    columns: int = 0  # elements that its loops read along memory with the domain, less those that they do not
    operands: dict[ir.Value, int] = field(default_factory=dict)  # tensors read -> reads of them

    @staticmethod
    def of(number: int, body: Body, indexing: Indexing) -> "Member":
        for loop in (body.root, *body.loops):
            indexing.enter(loop.op)
        domain = {argument: k for k, argument in enumerate(body.op.regions[0].blocks[0].arguments)}
        member = Member(number, body, sizes_of(body.op), [], chunks=Chunks.of(body.op))
        for read in body.reads:
            indices = list(read.op.operands)[1:]
            places = digits_of(indices, read.buffer.type, indexing)
            member._vote(read, [_runs_with(domain, *found, indexing) for found in zip(places, indices)])
            once = body.points * read.times <= tensor_bytes(read.buffer) // read.width
            found = [
                member.digits(values, domain, indexing) if values or not once else _form(index, domain, indexing)
                for values, index in zip(places, indices)
            ]
            member.patterns.append((read, tuple(found)))
            member.operands[read.buffer] = member.operands.get(read.buffer, 0) + 1
        member.row_dims = member.long_dims
        return member

    @property
    def result(self) -> ir.Value:
        return self.body.result

    @property
    def long_dims(self) -> tuple[int, ...]:
        """The dims whose size is not 1."""
        return tuple(d for d, size in enumerate(self.sizes) if constant(size) != 1)

    @property
    def inner_dims(self) -> tuple[int, ...]:
        return tuple(d for d in self.long_dims if d not in self.row_dims)

    @property
    def result_rows(self) -> Pattern:
        """For each dim of its domain, as another reads its result by it, the kernel's row that it is."""
        rows = {dim: row for row, dim in enumerate(self.row_dims)}
        return tuple(Digits((rows.get(dim),)) for dim in range(len(self.sizes)))

    @property
    def fuses(self) -> bool:
        """Whether it can share a kernel: a compute can, and what lays pieces beside each other; another scatter, or a scan, stands alone."""
        return self.body.op.name == "bascule.compute" or self.lays

    @property
    def lays(self) -> bool:
        """Whether each of its points has places of its own, known without data, in a tensor that all of them write: a scatter that lays pieces
        beside each other."""
        op = self.body.op
        return op.name == "bascule.scatter" and is_laid(op)

    @property
    def reduces(self) -> bool:
        return bool(self.body.loops)

    @cached_property
    def sides(self) -> Sides | None:
        """Of what tensor cores multiply; None for everything else."""
        return Sides.of_compute(self.body.op) if self.reduces else None

    def tiles(self, row_dims: tuple[int, ...]) -> Hashable:
        """The key of its walk over tiles of rows and columns, equal for those that walk together; `row_dims` are the kernel's rows."""
        assert self.sides is not None
        rows, columns = (
            tuple(r for r, dim in enumerate(row_dims) if dim in side) for side in (self.sides.rows, self.sides.columns)
        )
        return rows, columns, self.sides.of

    @property
    def is_worth_a_row(self) -> bool:
        """Whether a row of its elements is kept where several loops read it: they are costly, and it is small."""
        element = self.result.type.element_type
        size = 4 if isinstance(element, ir.F16Type | ir.BF16Type) else byte_width(element)
        for d in self.inner_dims:
            known = constant(self.sizes[d])
            if known is None:
                return False
            size *= known
        return size <= TILE and self.body.cost >= TRANSCENDENTAL

    @property
    def is_measured(self) -> bool:
        """Whether it is a product that was measured as a kernel: two of these share none."""
        return any(TUNED_PRODUCT in loop.op.attributes for loop in self.body.loops)

    def reduces_columns(self) -> bool:
        """Whether the largest reads of its loops run along memory with the domain, not with the reduction; others tell nothing."""
        return self.columns > 0

    def _vote(self, read: Access, direct: list[bool]) -> None:
        dim = fastest_dim(read.buffer.type)
        if dim is not None and read.times > 1 and sum(1 for d in read.buffer.type.shape if d != 1) > 1:
            elements = min(tensor_bytes(read.buffer) // read.width, self.body.points * read.times)
            self.columns += elements * (1 if direct[dim] else -1)

    def digits(self, values: tuple[ir.Value, ...], domain: dict[ir.Value, int], indexing: Indexing) -> Digits:
        """The dims of the domain for the digits of an index. A number of a chunk and the place in it are the one dim of the chunks."""
        found = [domain.get(value) for value in values]
        if self.chunks is not None and self.chunks.split in found[:-1]:
            at = found.index(self.chunks.split)
            size = indexing.extent(values[at + 1])
            if found[at + 1] is None and size is not None and constant(expr(size)) == self.chunks.size:
                del found[at + 1]
        return Digits.of(found)


def is_laid(scatter: ir.Operation) -> bool:
    """Whether a scatter stores each element once, at places that come from no data: it has as many stores as there are elements, and all have
    one."""
    (block,), sizes = scatter.regions[0].blocks, [constant(size) for size in sizes_of(scatter)]
    stores = [view.operation for view in block.operations if view.operation.name == StoreOp.OPERATION_NAME]
    nested = any(len(view.operation.regions) for view in block.operations)
    if WHOLE not in scatter.attributes or nested or None in sizes or not scatter.results[0].type.has_static_shape:
        return False
    once = prod(filter(None, sizes)) * len(stores) == prod(scatter.results[0].type.shape)
    return once and all("mode" not in op.attributes and all(map(_is_affine, op.operands[2:])) for op in stores)


def _is_affine(index: ir.Value) -> bool:
    """Whether an index is computed of indices of loops and constants alone."""
    if isinstance(index.owner, ir.Block):
        return True
    op = index.owner.operation
    return op.name == "arith.constant" or (op.name == "affine.apply" and all(map(_is_affine, op.operands)))


def _runs_with(domain: dict[ir.Value, int], digits: tuple[ir.Value, ...], index: ir.Value, indexing: Indexing) -> bool:
    """Whether an index changes fastest with the domain; `digits` are its own, if it has any. It does with what it has the step 1 along."""
    if digits:
        return digits[-1] in domain
    expression, values = indexing.resolve(index)
    steps = linear(expression).steps
    nearest = [value for k, value in enumerate(values) if steps.get(k) == 1] or values
    return bool(values) and all(value in domain for value in nearest)


def _form(index: ir.Value, domain: dict[ir.Value, int], indexing: Indexing) -> Digits:
    """The digits of an index of a read of each element once that does not count through dims, as of an image in tiles."""
    expression, values = indexing.resolve(index)
    return Digits(tuple(map(domain.get, values)), str(expression)) if values else Digits()


def pairs(left: Pattern, right: Pattern) -> Iterator[tuple[int | None, int | None]]:
    """The indices of two patterns of one tensor that index the same places, paired digit by digit; None on the left where they count
    differently."""
    for a, b in zip(left, right):
        alike = len(a.dims) == len(b.dims) and a.form == b.form
        yield from zip(a.dims, b.dims) if alike else ((None, digit) for digit in b.dims)
