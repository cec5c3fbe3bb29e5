"""A group of members as the region of one `bascule.kernel`."""

from collections.abc import Callable, Sequence

from ..analysis.affine.indexing import Indexing
from ..analysis.bodies.body_tree import sizes_of
from ..analysis.bodies.costs import DIVISIONS
from ..ir import builders
from ..ir.attributes import i64
from ..ir.definition import build
from ..ir.loop_ops import ComputeOp, ForeachOp, KernelOp, ScanOp, YieldOp
from ..ir.regions import end_of
from ..ir.shapes import size_map, tensor_type
from ..ir.types import CAST, rounds_for_store
from ..mlir import arith, ir
from .group_records import Group
from .inlining import Inliner
from .members import Member

INNER_LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute")
# Ops that `_hoist` leaves: effects, and what must not run where the loop has no iteration.
STAYS = ("bascule.store", "bascule.yield", *DIVISIONS)

Destinations = dict[ir.Value, ir.Value]  # a value of the graph function -> its destination in the kernel function


class Assembler:
    """Writes groups into kernels of one graph function."""

    def __init__(self, indexing: Indexing):
        self.indexing = indexing

    def loop(self, cls: type, sizes: Sequence[ir.AffineExpr], at: ir.InsertionPoint) -> tuple[ir.Operation, ir.Block]:
        """An op of `cls` over `sizes`, and the block of its region, which ends with a yield."""
        with at:
            op = build(cls, attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes))}).operation
        index, loc = ir.IndexType.get(), op.location
        block = ir.Block.create_at_start(op.regions[0], [index] * len(sizes), [loc] * len(sizes))
        with ir.InsertionPoint(block):
            build(YieldOp)
        self.indexing.enter(op)
        return op, block

    def write(
        self,
        group: Group,
        point: ir.Block,
        destinations: Destinations,
        rows: Sequence[ir.Value] | None = None,
        others: Sequence[Member] = (),
    ) -> None:
        """The members of `group` at the point `rows` (by default the arguments of `point`), before the yield of the block `point`.

        Values of `others`, pointwise members of another group, are computed where they are read.
        """
        _Writer(self, group, point, destinations, list(point.arguments if rows is None else rows), others).run()


class _Writer:
    """The state of writing one group."""

    def __init__(
        self,
        assembler: Assembler,
        group: Group,
        point: ir.Block,
        destinations: Destinations,
        rows: list[ir.Value],
        others: Sequence[Member],
    ):
        self.assembler, self.group, self.point, self.destinations = assembler, group, point, destinations
        self.rows = rows
        self.zero: ir.Value | None = None
        # A result -> the row of it that is kept, and whether the user's own cast rounds it.
        self.tiles: dict[ir.Value, tuple[ir.Value, Member, bool]] = {}
        self.inlined = {m.result: m.body.op for m in [*others, *group.members]}
        self.inliner = Inliner(assembler.indexing, self.inlined.get, self._kept)

    def run(self) -> None:
        later: dict[tuple, list[Member]] = {}
        for member in self.group.members:
            if not member.inner_dims:
                self._write(member, self.point, [])
                continue
            if self._keeps(member):
                self._tile(member)
            if member.result in self.destinations:
                sizes = tuple(member.sizes[d] for d in member.inner_dims)
                later.setdefault(sizes, []).append(member)
        for sizes, members in later.items():
            _, block = self.assembler.loop(ForeachOp, sizes, ir.InsertionPoint(end_of(self.point)))
            inner = list(block.arguments)
            for member in members:
                self._write(member, block, inner)
        self.inliner.finish()
        for view in list(self.point.operations):
            if view.operation.name in INNER_LOOPS:
                if self.group.shares:
                    _hoist_within(view.operation)
                _hoist(view.operation)

    def _write(self, member: Member, block: ir.Block, inner: Sequence[ir.Value]) -> None:
        """Writes the member at this point, before the end of `block`."""
        if not member.lays:
            self._store(member, self._value(member, block, inner), block, inner)
        elif (out := self.destinations.get(member.result)) is not None:
            with member.body.op.location:
                self.inliner.stores(member.body.op, self._indices(member, inner), out, end_of(block))

    def _indices(self, member: Member, inner: Sequence[ir.Value]) -> list[ir.Value]:
        """The index of the member's domain at this point, and `inner` along its inner dims."""
        rows = dict(zip(member.row_dims, self.rows))
        rows.update(zip(member.inner_dims, inner))
        return [rows[d] if d in rows else self._zero() for d in range(len(member.sizes))]

    def _zero(self) -> ir.Value:
        """The index of a dim of size 1."""
        if self.zero is None:
            with ir.InsertionPoint.at_block_begin(self.point), self.point.owner.location:
                self.zero = self.assembler.indexing.build((ir.AffineExpr.get_constant(0), ()))
        return self.zero

    def _value(self, member: Member, block: ir.Block, inner: Sequence[ir.Value]) -> ir.Value:
        """The member's element at this point, computed before the end of `block`, or before where it is already known."""
        with member.body.op.location:
            return self.inliner.element(member.result, self._indices(member, inner), end_of(block))

    def _store(self, member: Member, value: ir.Value, block: ir.Block, inner: Sequence[ir.Value]) -> None:
        out = self.destinations.get(member.result)
        if out is not None:
            indices = self._indices(member, inner)
            with ir.InsertionPoint(end_of(block)), member.body.op.location:
                builders.store(value, out, indices)

    # -- rows kept near the processor --------------------------------------------------------------------------------

    def _keeps(self, member: Member) -> bool:
        """Whether the member is worth a tile: costly, read by two loops at least, and a row of it is small."""
        if self.group.columns or not self.group.reduces or member.lays or not member.is_worth_a_row:
            return False
        loops = sum(1 for m in self.group.members if member.result in m.operands)
        return loops + (member.result in self.destinations) >= 2

    def _tile(self, member: Member) -> None:
        """Keeps a row of the member. What was rounded only to be stored is kept as it was before that."""
        sizes = [member.sizes[d] for d in member.inner_dims]
        type_ = tensor_type(sizes, member.result.type.element_type)
        with ir.InsertionPoint(end_of(self.point)), member.body.op.location:
            tile = build(
                ComputeOp, results=[type_], attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes))}
            ).operation
            index, loc = ir.IndexType.get(), tile.location
            block = ir.Block.create_at_start(tile.regions[0], [index] * len(sizes), [loc] * len(sizes))
            self.assembler.indexing.enter(tile)
            with ir.InsertionPoint(block):
                end = build(YieldOp, operands=[]).operation
        value = self._value(member, block, list(block.arguments))
        rounding, cast = value.owner, False
        if not isinstance(rounding, ir.Block) and rounds_for_store(rounding):
            value, cast = rounding.operands[0], CAST in rounding.attributes
            tile.results[0].set_type(tensor_type(sizes, value.type))
        with ir.InsertionPoint(end), member.body.op.location:
            build(YieldOp, operands=[value])
        end.erase()
        self.tiles[member.result] = tile.results[0], member, cast

    def _kept(self, source: ir.Value, indices: list[ir.Value]) -> ir.Value | None:
        """A read of a tile, at the current insertion point, for a read of the member it keeps."""
        tile = self.tiles.get(source)
        if tile is None:
            return None
        kept, member, cast = tile
        value, element = builders.read(kept, [indices[d] for d in member.inner_dims]), source.type.element_type
        widened = isinstance(value.type, ir.FloatType) and value.type != element
        if not widened:
            return value
        rounded = arith.truncf(element, value)
        if cast:
            rounded.owner.attributes[CAST] = ir.UnitAttr.get()
        return rounded


def _hoist_within(loop: ir.Operation) -> None:
    """Hoists out of the loops in `loop`: then loops that are the same for several members are equal."""
    for view in list(loop.regions[0].blocks[0].operations):
        if view.operation.name in INNER_LOOPS:
            _hoist_within(view.operation)
            _hoist(view.operation)


def _hoist(loop: ir.Operation) -> None:
    """Moves ops that are the same at every index of `loop` before it: reads of row values, what is computed from them."""
    block = loop.regions[0].blocks[0]
    varying = set(block.arguments)
    for view in list(block.operations):
        op = view.operation
        fixed = len(op.regions) == 0 and op.name not in STAYS and not any(operand in varying for operand in op.operands)
        if fixed:
            op.move_before(loop)
        else:
            varying.update(op.results)


# -- ops that stand alone --------------------------------------------------------------------------------------------


def write_scan(op: ir.Operation, out: ir.Value, into: ir.Block, assembler: Assembler) -> ir.Operation:
    """A scan as a kernel over its other dims: the scanned row is a tile, stored by the loop after it."""
    dim, sizes = op.attributes["dim"].value, sizes_of(op)
    kernel, point = assembler.loop(KernelOp, sizes[:dim] + sizes[dim + 1 :], ir.InsertionPoint(into))
    outer = list(point.arguments)
    row = tensor_type([sizes[dim]], op.results[0].type.element_type)
    attributes = {"kind": op.attributes["kind"], "dim": i64(0), "ranges": ir.AffineMapAttr.get(size_map([sizes[dim]]))}
    with ir.InsertionPoint(end_of(point)):
        scan = build(ScanOp, results=[row], attributes=attributes).operation
        block = op.regions[0].blocks[0]
        block.append_to(scan.regions[0])
        for k, index in enumerate(outer[:dim]):
            block.arguments[k].replace_all_uses_with(index)
        for k, index in enumerate(outer[dim:]):
            block.arguments[dim + 1 + k].replace_all_uses_with(index)
        for k in reversed(range(len(sizes))):
            if k != dim:
                block.erase_argument(k)

        def stored(indices: list[ir.Value]) -> None:
            builders.store(builders.read(scan.results[0], indices), out, outer[:dim] + indices + outer[dim:])

        builders.foreach([sizes[dim]], stored)
    return kernel


def write_scatter(op: ir.Operation, out: ir.Value, into: ir.Block, assembler: Assembler) -> ir.Operation:
    """A scatter as a kernel over its points, storing into `out`, which starts as its init."""
    ranges = op.attributes["ranges"]
    with ir.InsertionPoint(into):
        kernel = build(KernelOp, attributes={"ranges": ranges}).operation
    block = op.regions[0].blocks[0]
    block.append_to(kernel.regions[0])
    last = len(block.arguments) - 1
    block.arguments[last].replace_all_uses_with(out)
    block.erase_argument(last)
    return kernel


ALONE: dict[str, Callable] = {"bascule.scan": write_scan, "bascule.scatter": write_scatter}
