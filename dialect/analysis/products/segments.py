"""Rows that lie in segments, one after the other, whose ends are data: the number of a row's segment is a count of the ends at or before it. It
never decreases along the rows, so that a tile of rows can be cut where a segment ends, and has one number then."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from ...ir.regions import end_of
from ...ir.shapes import constant, layout_of
from ...mlir import arith, ir
from ..affine.linear_forms import Form
from ..bodies.backward_slice import needed
from ..bodies.body_summary import Access, Body
from ..bodies.body_tree import sizes_of
from .cut_sums import made

AT_OR_BEFORE, AT_OR_AFTER = arith.CmpIPredicate.sle, arith.CmpIPredicate.sge


@dataclass(frozen=True)
class Segments:
    """`reduce` counts, of `count` segments, those that end at or before `row`, an index around it. `end`: where a segment does, an index that
    is computed by `ops` of the number of the segment, the index in the region."""

    reduce: ir.Operation
    row: ir.Value
    end: ir.Value
    ops: Sequence[ir.Operation]
    count: int


def segments_of(reduce: ir.Operation) -> Segments | None:
    """The segments that a reduction counts; None where it is something else."""
    if reduce.name != "bascule.reduce" or reduce.attributes["kind"].value != "sum":
        return None
    block, (count, *others) = reduce.regions[0].blocks[0], map(constant, sizes_of(reduce))
    found = _compared(end_of(block).operands[0])
    if others or not count or found is None:
        return None
    end, row = found
    ops = needed([end], block).ops
    if not isinstance(row.owner, ir.Block) or row.owner == block or not ops or not _of_number(ops, block):
        return None
    return Segments(reduce, row, end, ops, count)


def segment_number(index: ir.Value) -> tuple[Segments, int] | None:
    """The segments, and how many numbers there are, where `index` is the number of a row's segment, or of the last one."""
    last = made(index, "arith.minsi")
    cast = None if last is None else made(last[0], "arith.index_cast")
    if last is None or cast is None or isinstance(cast[0].owner, ir.Block):
        return None
    segments = segments_of(cast[0].owner.operation)
    if segments is None or made(last[1], "arith.constant") is None:
        return None
    return segments, last[1].owner.attributes["value"].value + 1


def segment_numbers(indices: Sequence[ir.Value]) -> dict[ir.Value, int]:
    """The numbers of segments that `indices` are computed of, with how many there are of each."""
    found, todo = dict[ir.Value, int](), list(indices)
    while todo:
        index = todo.pop()
        number = segment_number(index)
        if number is not None:
            found[index] = number[1]
        elif (operands := made(index, "affine.apply")) is not None:
            todo += operands
    return found


def is_asked_inside(value: ir.Value, segments: Sequence[Segments]) -> bool:
    """Whether `value` is used for rows of some segment alone: all take 0 instead where the count is that of all segments."""
    return all(_is_choice(use.owner.operation, value, segments) for use in value.uses)


def _is_choice(op: ir.Operation, value: ir.Value, segments: Sequence[Segments]) -> bool:
    if op.name != "arith.select" or op.operands[1] != value or made(op.operands[2], "arith.constant") is None:
        return False
    compared = made(op.operands[0], "arith.cmpi")
    if compared is None or made(compared[1], "arith.constant") is None:
        return False
    below = op.operands[0].owner.attributes["predicate"].value == arith.CmpIPredicate.slt
    count, number = compared[0], compared[1].owner.attributes["value"].value
    return below and any(count == each.reduce.results[0] and number == each.count for each in segments)


def with_data(body: Body, accesses: Sequence[Access]) -> list[Access]:
    """`accesses` whose forms vary with what the indices from data in them are computed from, too; a segment's number counts as one that does not
    vary."""
    return [_with_data(body, access) for access in accesses]


def _with_data(body: Body, access: Access) -> Access:
    assert body.indexing is not None
    ((_, bases),) = body.indexing.at(layout_of(access.buffer.type), access.indices)
    data = [base for base in bases if body.number(base) not in body.sizes and segment_number(base) is None]
    if not data:
        return access
    if not body.dependence:
        body.depend()
    opaque = {index for base in data for index in body.dependence.get(body.number(base), {})}
    form, found = access.form, copy(access)
    found.form = Form(form.steps, form.opaque | opaque, form.start, form.terms)
    return found


def _compared(term: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The two indices of which `term` is 1 where the first is at or before the second, else 0."""
    widened = made(term, "arith.extui")
    sides = None if widened is None else made(widened[0], "arith.cmpi")
    if widened is None or sides is None or not isinstance(sides[0].type, ir.IndexType):
        return None
    predicate = widened[0].owner.attributes["predicate"].value
    orders = {AT_OR_BEFORE: (sides[0], sides[1]), AT_OR_AFTER: (sides[1], sides[0])}
    return orders.get(arith.CmpIPredicate(predicate))


def _of_number(ops: Sequence[ir.Operation], block: ir.Block) -> bool:
    """Whether `ops` compute of the block's arguments, buffers and constants alone."""
    made = {result for op in ops for result in op.results} | set(block.arguments)
    return all(
        not len(op.regions) and all(operand in made or _is_given(operand) for operand in op.operands) for op in ops
    )


def _is_given(value: ir.Value) -> bool:
    buffer = isinstance(value.type, ir.RankedTensorType | ir.MemRefType)
    return buffer or (not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant")
