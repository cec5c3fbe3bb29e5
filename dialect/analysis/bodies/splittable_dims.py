"""Which computes walk by one index what a reduction before them walks by two.

A normalization of groups of channels reduces over the channels of a group; what is computed from its mean and variance, over all channels, reads
those at `channel floordiv size`. Where its domain has two indices instead, a group and a channel in it, both run over the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.shapes import constant, expr
from ...mlir import ir
from ..affine.fastest_dim import fastest_dim
from ..affine.indexing import Index, Indexing, digits
from ..affine.linear_forms import linear
from .body_summary import Body
from .body_tree import indices_of, sizes_of
from .costs import tensor_bytes


@dataclass(frozen=True)
class Split:
    """Index `dim` of a domain as two, the inner one of `size` points."""

    dim: int
    size: int


class Quotients:
    """The computes of one graph, by their results. `least`: bytes of a tensor that are worth reading once less; `run`: those that are worth
    reading in one piece."""

    def __init__(self, bodies: dict[ir.Value, Body], indexing: Indexing, least: int, run: int):
        self.bodies, self.indexing, self.least, self.run = bodies, indexing, least, run
        self.readers: dict[ir.Value, list[tuple[Body, ir.Operation]]] = {}
        for body in bodies.values():
            for loop in (body.root, *body.loops):
                indexing.enter(loop.op)
            for read in body.reads:
                self.readers.setdefault(read.buffer, []).append((body, read.op))

    def split_of(self, body: Body) -> Split | None:
        """How to split the domain of a pointwise compute so that it has the rows of what reduced its operands; None where it has them, or
        where it, or what reads its result, would take the two indices together again."""
        if not body.is_pointwise:
            return None
        sizes, fastest = sizes_of(body.op), fastest_dim(body.result.type)
        for read in body.reads:
            for place, index in enumerate(self._indices(read.op)):
                split = _quotient(index, indices_of(body.op), sizes)
                if split is None or (split.dim == fastest and split.size * body.width < self.run):
                    continue
                if self._gains(body, read.buffer, place, split.size) and self._settles(body, split):
                    return split
        return None

    def _gains(self, body: Body, source: ir.Value, place: int, size: int) -> bool:
        """Whether dim `place` of `source` is rows over which a large tensor was reduced in runs of `size`, and which the compute reads too."""
        own = {read.buffer for read in body.reads}
        for tensor in self._reduced(source, place, size):
            if tensor_bytes(tensor) >= self.least and (
                tensor in own or 2 * tensor_bytes(source) >= tensor_bytes(tensor)
            ):
                return True
        return False

    def _reduced(self, source: ir.Value, place: int, size: int) -> Iterator[ir.Value]:
        """The tensors of which rows of `source`, along its dim `place`, were reduced: with `size` places of a dim for each of them."""
        todo, seen = [(source, place)], set[tuple[ir.Value, int]]()
        while todo:
            source, place = todo.pop()
            body = self.bodies.get(source)
            if body is None or (source, place) in seen:
                continue
            seen.add((source, place))
            row = indices_of(body.op)[place]
            for read in body.reads:
                for dim, index in enumerate(self._indices(read.op)):
                    if isinstance(index[0], ir.AffineDimExpr) and index[1][0] == row:
                        todo.append((read.buffer, dim))
                    elif body.loops and self._counts(index, row, size):
                        yield read.buffer

    def _counts(self, index: Index, row: ir.Value, size: int) -> bool:
        """Whether an index is `row * size + k`, 0 <= k < size."""
        found = digits(index, self.indexing)
        if found is None or len(found) != 2 or found[0] != row:
            return False
        extent = self.indexing.extent(found[1])
        return extent is not None and constant(expr(extent)) == size

    def _settles(self, body: Body, split: Split) -> bool:
        """Whether no quotients or remainders are left of the index when it is two; and of those of what reads the result at it."""
        if any(use.owner.operation.name == "bascule.copy_into" for use in body.result.uses):
            return False
        if not self._settled(body, indices_of(body.op)[split.dim], split.size):
            return False
        for reader, read in self.readers.get(body.result, ()):
            expression, values = self._indices(read)[split.dim]
            if not reader.is_pointwise or not isinstance(expression, ir.AffineDimExpr):
                return False
            if values[0] not in indices_of(reader.op) or not self._settled(reader, values[0], split.size):
                return False
        return True

    def _settled(self, body: Body, argument: ir.Value, size: int) -> bool:
        for read in body.reads:
            for expression, values in self._indices(read.op):
                if argument not in values:
                    continue
                count, number = len(values), values.index(argument)
                whole = constant(expr(self.indexing.extent(argument)))
                if whole is None:
                    return False
                dims = [ir.AffineExpr.get_dim(i) for i in range(count + 1)]
                dims[number] = dims[number] * size + dims.pop()
                map_ = ir.AffineMap.get(count + 1, 0, [expression.compose(ir.AffineMap.get(count + 1, 0, dims))])
                extents = [self.indexing.extent(value) for value in values]
                extents[number] = expr(whole // size)
                (result,) = self.indexing.simplifier(map_, [*extents, expr(size)]).results
                if linear(result).opaque & {number, count}:
                    return False
        return True

    def _indices(self, read: ir.Operation) -> list[Index]:
        return [self.indexing.resolve(index) for index in list(read.operands)[1:]]


def _quotient(index: Index, arguments: list[ir.Value], sizes: list[ir.AffineExpr]) -> Split | None:
    """The split after which `index`, the quotient of an index of a domain, is the outer one of two."""
    expression, values = index
    if not isinstance(expression, ir.AffineFloorDivExpr) or not isinstance(expression.rhs, ir.AffineConstantExpr):
        return None
    if not isinstance(expression.lhs, ir.AffineDimExpr) or values[0] not in arguments:
        return None
    dim, size = arguments.index(values[0]), expression.rhs.value
    whole = constant(sizes[dim])
    return Split(dim, size) if whole is not None and whole % size == 0 and 1 < size < whole else None
