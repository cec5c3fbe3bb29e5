"""Scatters that add whole rows, each to the row of the destination that one number from data names; and what they cost on a GPU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from ..ir.shapes import constant, shape_of
from ..ir.types import byte_width
from ..mlir import ir
from .accesses import READS
from .bodies import magnitude, sizes_of, summarize

ORDERED = "bascule.ordered"  # on a scatter of rows that must not be atomic: deterministic algorithms are asked for
ROW = 16  # elements of a row, at least
# Bytes that an H200 moves to or from memory (4 TB/s) in the time of something else, as measured.
ATOMIC, ATOMIC_NEAR = (
    7,
    3,
)  # one number added to memory, and to a tensor of at most `NEAR` bytes, which stays in the L2 cache
NEAR = 40 << 20
SORT, SORTED = 280_000_000, 300  # indices sorted and their segments found: in any case, and for each index


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

    @staticmethod
    def of(op: ir.Operation, shortest: int = ROW) -> "RowScatter | str":
        """The scatter `op` as one of rows of `shortest` elements at least, or why it is none."""
        block = op.regions[0].blocks[0]
        stores = [inner for inner in _inside(op) if inner.name == "bascule.store"]
        if len(stores) != 1 or stores[0].block != block:
            return "it has several stores, or one under a condition"
        (store,) = stores
        if "mode" not in store.attributes or store.attributes["mode"].value != "add":
            return "it does not add"
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
        reduces = any(_reduces(inner) for inner in needed([value], block).ops)
        return RowScatter(op, points, tuple(inner), row, value, dropped, reduces)

    # What the two ways cost, in bytes moved. In both the rows to add are read once.

    @property
    def saved(self) -> int:
        """The bytes that a sum of segments moves less than additions to memory."""
        sizes, width = shape_of(self.init), byte_width(self.init.type.element_type)
        table, added = magnitude(sizes) * width, magnitude(sizes_of(self.op))
        read_again = table if self._only_read() else 0  # a sum of segments is at hand where it is made
        start = (
            table if is_made_there(self.init) else 0
        )  # what scatters write first, and sums of segments need not read
        atomics = start + added * (ATOMIC_NEAR if table <= NEAR else ATOMIC) + read_again
        segments = table - start + table - read_again
        return atomics - segments - SORT - SORTED * magnitude([sizes_of(self.op)[d] for d in self.points])

    def _only_read(self) -> bool:
        """Whether nothing but computes uses the result: then it may never be in memory."""
        return all(use.owner.operation.name == "tensor.extract" for use in self.op.results[0].uses)


def _reduces(op: ir.Operation) -> bool:
    return op.name == "bascule.reduce" or any(map(_reduces, _inside(op)))


def _inside(op: ir.Operation) -> Iterable[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from _inside(view.operation)


@dataclass(frozen=True)
class Needed:
    """What values of a region's block are computed from: its ops, in order, and the numbers of its arguments."""

    ops: list[ir.Operation]
    arguments: set[int]


def needed(values: Sequence[ir.Value], block: ir.Block) -> Needed:
    """What `values` need of what is in `block`."""
    ops: set[ir.Operation] = set()
    arguments: set[int] = set()
    todo = list(values)
    while todo:
        owner = todo.pop().owner
        if isinstance(owner, ir.Block):
            continue
        op = owner.operation
        if op.block != block or op in ops:
            continue
        ops.add(op)
        for user in (op, *_inside(op)):
            todo += user.operands
    numbers = {argument: number for number, argument in enumerate(block.arguments)}
    for op in ops:
        for user in (op, *_inside(op)):
            arguments.update(numbers[operand] for operand in user.operands if operand in numbers)
    arguments.update(numbers[value] for value in values if value in numbers)
    order = [view.operation for view in block.operations]
    return Needed([op for op in order if op in ops], arguments)


def _dropped(value: ir.Value, block: ir.Block, points: set[int]) -> tuple[ir.Value, tuple[ir.Value, bool] | None]:
    """What is added, and the condition under which that is zero instead: a padding index."""
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
    return not isinstance(owner, ir.Block) and owner.name == "bascule.compute" and not summarize(owner.operation).loops
