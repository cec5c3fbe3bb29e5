"""The plan of a tensor that is made and read chunk by chunk of its rows: which ops are, and along which dim each of their results is cut.

A tensor of the logits of all tokens is made by a product, read by computes that reduce its rows, and taken by products that keep rows or sum
over them. Each of these can be cut along the dim that has the rows, if the elements that a chunk reads are of the same chunk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from ..analysis.affine.bounds import interval
from ..analysis.affine.indexing import Indexing
from ..analysis.affine.simplification import Simplifier
from ..analysis.bodies.body_summary import Access, Body
from ..analysis.bodies.body_tree import sizes_of
from ..analysis.bodies.costs import tensor_bytes
from ..analysis.memory.matmul_operands import Product
from ..ir.attribute_names import TOGETHER
from ..ir.functions import EXTERN
from ..ir.regions import op_in
from ..ir.shapes import callee_of, constant, constants, expr
from ..mlir import ir
from .chunk_sizes import CHUNKS, Chunks
from .split_reduction import is_splittable

ALIKE = 0.5  # of the bytes of the tensor that is cut: others that have rows are cut too, if they are no smaller
SMALL = 64  # times smaller than that tensor: what is summed over rows may be stored element by element
TRIED = 64  # cuts at which bounds are looked at while dims are chosen


class NotChunked(Exception):
    """Why a tensor cannot be computed by chunks."""


@dataclass
class RowChunks:
    """`ops` in program order. `dims`: of each result that has rows, the dim; `sums`: products that sum over rows; `splits`: reductions over
    rows, of a compute, that become sums of partial results first. All of `dims` can be cut into `groups` equal parts, and are cut into
    `count`; but for sizes in `same`: those are cut where `rows`, the first tensor's, is."""

    ops: list[ir.Operation] = field(default_factory=list)
    dims: dict[ir.Value, int] = field(default_factory=dict)
    sums: set[ir.Operation] = field(default_factory=set)
    splits: list[tuple[ir.Operation, ir.Operation, Chunks]] = field(default_factory=list)
    rows: int = 0
    groups: int = 0
    count: int = 0
    same: set[int] = field(default_factory=set)

    def bounds(self, size: int) -> list[int]:
        """Where a dim of `size` is cut."""
        return self.cuts(size, size in self.same, self.groups, self.count)

    def cuts(self, size: int, same: bool, groups: int, count: int) -> list[int]:
        """Where it would be, of so many groups: into parts that are about equal, multiples of a group's size."""
        ends = [groups * k // count for k in range(count + 1)]
        if same:  # the last part is longer or shorter
            return [*(end * (self.rows // groups) for end in ends[:-1]), size]
        return [end * (size // groups) for end in ends]


class RowPlan:
    """The plan for one tensor of a graph function. `ops`: those of its block; `readers`: of each, the ops of the block that use its results."""

    def __init__(self, ops: Sequence[ir.Operation], seed: ir.Value, count: int, symbols: Sequence[ir.Value]):
        self.places = {op: place for place, op in enumerate(ops)}
        self.ops, self.seed, self.count = ops, seed, count
        self.readers = {op: list(dict.fromkeys(self._users(op))) for op in ops}
        self.indexing = Indexing(symbols, Simplifier())
        self.found = RowChunks()
        self.even: set[int] = set()  # sizes that are cut by groups

    def _users(self, op: ir.Operation) -> Iterator[ir.Operation]:
        for result in op.results:
            for use in result.uses:
                yield op_in(op.block, use.owner.operation)

    def made(self) -> RowChunks:
        """Raises `NotChunked`."""
        chosen = {self.seed.owner.operation}
        while True:
            self.found, self.even = RowChunks(), set()
            grown = self._inferred(chosen)
            grown |= self._between(grown)
            if grown == chosen:
                break
            chosen = grown
        found = self.found
        found.ops = sorted(chosen, key=self.places.__getitem__)
        found.count = min(self.count, found.groups)
        if found.count < 2:
            raise NotChunked("no rows that can be cut everywhere")
        if not found.splits:
            self._verify(chosen)
        return found

    # Which ops

    def _inferred(self, chosen: set[ir.Operation]) -> set[ir.Operation]:
        """The dims of what `chosen` make; those ops, and the others that read a large tensor with rows."""
        grown, todo = set[ir.Operation](), sorted(chosen, key=self.places.__getitem__)
        while todo:
            op = todo.pop(0)
            if op in grown:
                continue
            grown.add(op)
            self._infer(op)
            # Partial sums are as few as there are chunks.
            for value in op.results if CHUNKS not in op.attributes else ():
                if value in self.found.dims and tensor_bytes(value) >= ALIKE * tensor_bytes(self.seed):
                    todo = sorted({*todo, *self.readers[op]}, key=self.places.__getitem__)
        return grown

    def _between(self, chosen: set[ir.Operation]) -> set[ir.Operation]:
        """The ops that depend on some of `chosen`, and that others of them depend on."""
        after = set[ir.Operation]()
        for op in self.ops:
            if op in chosen or op in after:
                after.update(self.readers[op])
        before = set[ir.Operation]()
        for op in reversed(self.ops):
            if any(reader in chosen or reader in before for reader in self.readers[op]):
                before.add(op)
        return after & before

    # Along which dims

    def _infer(self, op: ir.Operation) -> None:
        if TOGETHER in op.attributes:
            raise NotChunked("it shares a kernel with others")
        if op.name == "bascule.view":
            self._infer_view(op)
        elif op.name == "bascule.compute":
            self._infer_compute(op)
        elif op.name == "func.call" and (factors := self.factors(op)):
            self._infer_product(op, factors)
        else:
            raise NotChunked(f"'{op.name}' needs it whole")

    def _has_rows(self, value: ir.Value, dim: int, same: bool = False) -> None:
        found, size = self.found, sizes_at(value)[dim]
        if value == self.seed:
            found.rows = size
        groups = found.groups if same else gcd(found.groups, size)
        if groups < 2:
            raise NotChunked("its rows cannot be cut where what reads them is")
        found.groups, found.dims[value] = groups, dim
        (found.same if same else self.even).add(size)

    def _ways(self, size: int) -> list[bool]:
        """Whether a dim of `size` may be cut where the first tensor is: one size is cut one way."""
        return [way for way, others in ((False, self.found.same), (True, self.even)) if size not in others]

    @staticmethod
    def factors(call: ir.Operation) -> tuple[int, int] | None:
        """The numbers of the operands that a call of a product multiplies; None for another call, or one that adds something large."""
        function = callee_of(call)
        product = Product.of(call, function) if EXTERN in function.attributes else None
        if (
            product is None
            or product.result.type.rank != 2
            or (product.added is not None and product.added.type.rank > 1)
        ):
            return None
        operands = list(call.operands)
        return operands.index(product.x), operands.index(product.y)

    def _infer_product(self, call: ir.Operation, factors: tuple[int, int]) -> None:
        dims, (result,) = self.found.dims, call.results
        x, y = (call.operands[number] for number in factors)
        match dims.get(x), dims.get(y):
            case (None, None) if result == self.seed:
                self._has_rows(result, 0)
            case (0, None):
                self._has_rows(result, 0)
            case (None, 1):
                self._has_rows(result, 1)
            case (1, None) | (None, 0) | (1, 0):
                if callee_of(call).attributes[EXTERN].value != "aten.mm.default":
                    raise NotChunked("a sum over rows has something added")
                if not isinstance(result.type.element_type, ir.FloatType):
                    raise NotChunked("a sum over rows is of no floats")
                self.found.sums.add(call)
            case _:
                raise NotChunked("a product takes other parts of it")

    def _infer_view(self, op: ir.Operation) -> None:
        source, (result,) = op.operands[0], op.results
        map_, dim = op.attributes["map"].value, self.found.dims.get(source)
        sizes = sizes_at(result)
        if dim is None:
            raise NotChunked("a view of something else is among its readers")
        for k, size in enumerate(sizes):
            for same in self._ways(size):
                if self._cuts_alike(map_.results[dim], sizes, k, sizes_at(source)[dim], size, same):
                    return self._has_rows(result, k, same)
        raise NotChunked("a view has its rows along no dim")

    def _infer_compute(self, op: ir.Operation) -> None:
        reads, (result,) = self.rows_read(op), op.results
        sizes, arguments = sizes_at(result), list(op.regions[0].blocks[0].arguments)
        if not reads:
            if result != self.seed:
                raise NotChunked("what is read with it has no rows")
            return self._has_rows(result, next((k for k, size in enumerate(sizes) if size > 1), 0))
        for k, argument in enumerate(arguments):
            for same in self._ways(sizes[k]):
                if all(self._read_alike(read, argument, sizes[k], same) for read in reads):
                    return self._has_rows(result, k, same)
        self._split(op, reads)

    def rows_read(self, op: ir.Operation) -> list[Access]:
        """The reads of tensors that have rows."""
        body = Body(op)
        for loop in (body.root, *body.loops):
            self.indexing.enter(loop.op)
        return [read for read in body.reads if read.buffer in self.found.dims]

    def _read_alike(self, read: Access, argument: ir.Value, size: int, same: bool) -> bool:
        dim = self.found.dims[read.buffer]
        expression, bases = self.indexing.resolve(read.indices[dim])
        if argument not in bases:
            return False
        limits = limits_at(read.op)
        known = [self._extent(base, limits) for base in bases]
        extents = [each for each in known if each is not None]
        if len(extents) < len(known):
            return False
        place = bases.index(argument)
        if argument not in limits:
            extents[place] = size
        return self._cuts_alike(expression, extents, place, sizes_at(read.buffer)[dim], size, same)

    def _extent(self, base: ir.Value, limits: dict[ir.Value, int]) -> int | None:
        extent = self.indexing.extent(base)
        size = None if extent is None else constant(expr(extent))
        return size if size is None else min(size, limits.get(base, size))

    def _cuts_alike(
        self, expression: ir.AffineExpr, extents: Sequence[int], place: int, rows: int, size: int, same: bool
    ) -> bool:
        """Whether `expression` over a box of `extents` stays in each part of `rows` for the same part of the box's dim `place`, of `size`."""
        found = self.found
        groups = found.groups if same or found.count else gcd(found.groups, size)
        if groups < 2:
            return False
        count = found.count or min(groups, self.count if same else TRIED)
        parts, wanted = found.cuts(size, same, groups, count), found.cuts(rows, rows in found.same, groups, count)
        if parts[-2] >= parts[-1]:
            return False
        for low, high, least, most in zip(parts, parts[1:], wanted, wanted[1:]):
            high = min(high, extents[place])
            if low < high:
                box = [high - low if k == place else extent for k, extent in enumerate(extents)]
                first, last = interval(moved(expression, len(extents), place, low), box)
                if first < least or last >= most:
                    return False
        return True

    def _split(self, op: ir.Operation, reads: Sequence[Access]) -> None:
        """Has a reduction over rows, of a compute that has none in its domain, split."""
        loops = {read.loops[1].op if len(read.loops) > 1 else None for read in reads}
        loop = loops.pop()
        if loops or loop is None or loop.name != "bascule.reduce" or not is_splittable(op, loop):
            raise NotChunked("what reads it is along no rows of it")
        ranges = constants(sizes_of(loop))
        if ranges is None:
            raise NotChunked("what sums its rows has sizes that are not known")
        elements = prod(ranges) * max(1, prod(sizes_at(op.results[0])))
        if elements * SMALL <= prod(sizes_at(self.seed)):
            chunks = Chunks(tuple(ranges), len(ranges) - 1, ranges[-1], 1)
        else:
            count = gcd(ranges[0], self.found.groups)
            count = max((c for c in range(2, self.count + 1) if count % c == 0), default=0)
            if not count:
                raise NotChunked("sums over its rows cannot be cut where it is")
            chunks = Chunks(tuple(ranges), 0, count, ranges[0] // count)
        self.found.splits.append((op, loop, chunks))

    def _verify(self, chosen: set[ir.Operation]) -> None:
        """With the cuts that all have in common, each chunk reads its own."""
        for op in sorted(chosen, key=self.places.__getitem__):
            if op.name == "bascule.compute" and op.results[0] in self.found.dims:
                k = self.found.dims[op.results[0]]
                argument, size = op.regions[0].blocks[0].arguments[k], sizes_at(op.results[0])[k]
                same = size in self.found.same
                if not all(self._read_alike(read, argument, size, same) for read in self.rows_read(op)):
                    raise NotChunked("no cut that all have in common")


def moved(expression: ir.AffineExpr, rank: int, place: int, by: int) -> ir.AffineExpr:
    """`expression` of an index that is `by` more along dim `place`."""
    return expression.compose(ir.AffineMap.get(rank, 0, shifted(rank, place, by))).maybe_downcast()


def shifted(rank: int, place: int, by: int) -> list[ir.AffineExpr]:
    """The dims of an index that is `by` more along dim `place`."""
    return [ir.AffineExpr.get_dim(k) + (by if k == place else 0) for k in range(rank)]


def sizes_at(value: ir.Value) -> list[int]:
    """The sizes of a tensor. Raises `NotChunked` where they are not static."""
    if not value.type.has_static_shape:
        raise NotChunked("its sizes are not known")
    return list(value.type.shape)


def limits_at(op: ir.Operation) -> dict[ir.Value, int]:
    """The numbers that indices are less than, by the conditions around an op."""
    limits, inner, block = dict[ir.Value, int](), op, op.block
    parent = op.parent.operation
    while parent.name == "scf.if" or parent.name == "bascule.reduce":
        if parent.name == "scf.if" and block == parent.regions[0].blocks[0]:
            for value, limit in _less(parent.operands[0]):
                limits[value] = min(limit, limits.get(value, limit))
        inner, block = parent, parent.block
        parent = inner.parent.operation
    return limits


def _less(condition: ir.Value) -> Iterator[tuple[ir.Value, int]]:
    if isinstance(condition.owner, ir.Block):
        return
    op = condition.owner.operation
    if op.name == "arith.andi":
        for operand in op.operands:
            yield from _less(operand)
    elif op.name == "arith.cmpi" and op.attributes["predicate"].value in (2, 6):  # slt, ult
        limit = op.operands[1].owner
        if not isinstance(limit, ir.Block) and limit.name == "arith.constant":
            yield op.operands[0], limit.attributes["value"].value
