"""Scatters that add whole rows, each to the row of the destination that one number from data names; and what they cost on a GPU."""

from dataclasses import dataclass
from math import prod

from ..analysis.bodies.backward_slice import needed
from ..analysis.bodies.body_summary import Body
from ..analysis.bodies.body_tree import READS, sizes_of
from ..analysis.bodies.costs import magnitude
from ..ir.regions import ops_in
from ..ir.shapes import constant, shape_of
from ..ir.types import byte_width
from ..machines.measures import measures
from ..mlir import ir

ORDERED = "bascule.ordered"  # on a scatter of rows that must not be atomic: deterministic algorithms are asked for
ROW = 16  # elements of a row, at least
# Bytes that move to or from memory in the time of something else; see the file for each.
ATOMIC, ATOMIC_NEAR, NEAR, SORT, SORTED, MERGED, MERGE, PAIRS, CONTENDED, STEP = (
    measures("h200")[name].value
    for name in (
        *("atomic", "atomic_near", "near", "sort", "sorted_index", "merged_most", "merge", "merged_pairs"),
        *("contended", "compared"),
    )
)
LINE = 128  # bytes of a cache line


@dataclass(frozen=True)
class RowScatter:
    """A scatter into `init[row, ...]`. `points` are the dims of its domain that the row depends on, in order; `inner[d]` the one that runs along
    dim `d + 1` of the destination, None where that has one element. `dropped`: a condition on the points, and its value where zero is added."""

    op: ir.Operation
    points: tuple[int, ...]
    inner: tuple[int | None, ...]
    row: ir.Value
    value: ir.Value
    dropped: tuple[ir.Value, bool] | None
    reduces: bool  # whether what is added is reduced in the scatter

    @property
    def init(self) -> ir.Value:
        return self.op.operands[0]

    @property
    def block(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def ranges(self) -> list[ir.AffineExpr]:
        return sizes_of(self.op)

    @staticmethod
    def of(op: ir.Operation, shortest: int = ROW) -> "RowScatter | str":
        """The scatter `op` as one of rows of `shortest` elements at least, or why it is none."""
        block = op.regions[0].blocks[0]
        stores = [inner for inner in ops_in(op) if inner.name == "bascule.store"]
        if len(stores) != 1 or stores[0].block != block:
            return "it has several stores, or one under a condition"
        (store,) = stores
        if "mode" not in store.attributes or store.attributes["mode"].value != "add":
            return "it does not add"
        if not shape_of(op.operands[0]):
            return "its destination has no rows"
        value, _, row, *others = store.operands
        sizes, extents = shape_of(op.operands[0]), sizes_of(op)
        arguments = list(block.arguments)[: len(extents)]
        inner: list[int | None] = []
        for index, size in zip(others, sizes[1:]):
            if constant(size) == 1:
                inner.append(None)
            elif index in arguments and extents[arguments.index(index)] == size:
                inner.append(arguments.index(index))
            else:
                return "it does not add whole rows"
        along = [dim for dim in inner if dim is not None]
        if len(set(along)) < len(along) or prod(constant(extents[d]) or ROW for d in along) < shortest:
            return f"its rows are shorter than {shortest} elements"
        points = tuple(d for d in range(len(extents)) if d not in along)
        used = needed([row], block)
        if not any(inner.name in READS for inner in used.ops):
            return "its rows are not chosen by data"
        if not used.arguments <= set(points):
            return "the elements of a row go to several rows"
        value, dropped = _dropped(value, block, set(points))
        reduces = any(inner.name == "bascule.reduce" for used in needed([value], block).ops for inner in ops_in(used))
        return RowScatter(op, points, tuple(inner), row, value, dropped, reduces)

    # What the two ways cost, in bytes moved. In both the rows to add are read once.

    @property
    def saved(self) -> int:
        """The bytes that a sum of segments moves less than additions to memory."""
        sizes, width = shape_of(self.init), byte_width(self.init.type.element_type)
        table, added = magnitude(sizes) * width, magnitude(sizes_of(self.op))
        # A sum of segments is at hand where it is made.
        read_again = table if self._only_read() else 0
        # What scatters write first, sums of segments need not read.
        start = table if is_made_there(self.init) else 0
        atomics = start + added * (ATOMIC_NEAR if table <= NEAR else ATOMIC) + read_again
        segments = table - start + table - read_again
        return atomics - segments - self._ordering()

    def _ordering(self) -> int:
        """The cost of putting the points in order."""
        sizes = [sizes_of(self.op)[d] for d in self.points]
        points = magnitude(sizes)
        if points <= MERGED and None not in map(constant, sizes):
            return MERGE + points * points // PAIRS
        return SORT + SORTED * points

    @property
    def saved_by_gathering(self) -> int:
        """The same of sums over all points for each row: what one costs is a number from data on neither side."""
        sizes = shape_of(self.init)
        table, added = magnitude(sizes) * byte_width(self.init.type.element_type), magnitude(self.ranges)
        spread = ATOMIC_NEAR if table <= NEAR else ATOMIC
        return added * (max(spread, CONTENDED // -(-table // LINE)) - STEP * magnitude(sizes[:1]))

    def _only_read(self) -> bool:
        """Whether nothing but computes uses the result: then it may never be in memory."""
        return all(use.owner.operation.name == "tensor.extract" for use in self.op.results[0].uses)


def _dropped(value: ir.Value, block: ir.Block, points: set[int]) -> tuple[ir.Value, tuple[ir.Value, bool] | None]:
    """The added value, and the condition under which it is zero instead: a padding index."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.select":
        return value, None
    condition, yes, no = value.owner.operands
    if condition.type == value.type or not needed([condition], block).arguments <= points:
        return value, None
    if _is_zero(yes):
        return no, (condition, True)
    if _is_zero(no):
        return yes, (condition, False)
    return value, None


def _is_zero(value: ir.Value) -> bool:
    return (
        not isinstance(value.owner, ir.Block)
        and value.owner.name == "arith.constant"
        and not value.owner.attributes["value"].value
    )


def is_made_there(init: ir.Value) -> bool:
    """Whether a scatter's init is computed from its index without a loop: what needs an element of it may as well compute that."""
    owner = init.owner
    return not isinstance(owner, ir.Block) and owner.name == "bascule.compute" and not Body(owner.operation).loops
