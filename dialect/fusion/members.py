"""Computes as members of a kernel: how a member's reads sit over its own domain, and which of its dims are the kernel's rows."""

from dataclasses import dataclass, field

from ..analysis.bodies import Body, Read, sizes_of
from ..analysis.indexing import Indexing
from ..analysis.layouts import fastest_dim
from ..ir.shapes import constant
from ..mlir import ir

# For each dimension of a tensor read: the dim of the reader's domain that indexes it (and nothing else does), or None.
Pattern = tuple[int | None, ...]


@dataclass
class Member:
    """One compute (scan, scatter) to be placed in a kernel.

    `row_dims[r]` is the dim of its result that runs with row r of the kernel. Its other dims of a size other than 1 are its inner dims.
    """

    number: int  # position among the members of the graph
    body: Body
    sizes: list[ir.AffineExpr]
    patterns: list[tuple[Read, Pattern]]
    row_dims: tuple[int, ...] = ()
    operands: dict[ir.Value, int] = field(default_factory=dict)  # tensors read -> reads of them

    @staticmethod
    def of(number: int, body: Body, indexing: Indexing) -> "Member":
        indexing.enter(body.op)
        for loop in body.loops:
            indexing.enter(loop)
        domain = {argument: k for k, argument in enumerate(body.op.regions[0].blocks[0].arguments)}
        member = Member(number, body, sizes_of(body.op), [])
        for read in body.reads:
            pattern = []
            for operand in list(read.op.operands)[1:]:
                expression, values = indexing.resolve(operand)
                direct = isinstance(expression, ir.AffineDimExpr)
                pattern.append(domain.get(values[expression.position]) if direct else None)
            member.patterns.append((read, tuple(pattern)))
            member.operands[read.source] = member.operands.get(read.source, 0) + 1
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
    def fuses(self) -> bool:
        """Whether it can share a kernel: a compute can; a scan or scatter stands alone."""
        return self.body.op.name == "bascule.compute"

    @property
    def reduces(self) -> bool:
        return bool(self.body.loops)

    def reduces_columns(self) -> bool:
        """Whether its largest reads run along memory with the domain, not with the reduction."""
        votes = 0
        for read, pattern in self.patterns:
            dim = fastest_dim(read.source.type)
            if dim is not None and (dims := sum(1 for d in read.source.type.shape if d != 1)) > 1:
                votes += read.times * dims * (1 if pattern[dim] is not None else -1)
        return votes > 0
