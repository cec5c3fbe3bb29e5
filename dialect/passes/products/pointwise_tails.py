"""Tails of products: computes that are pointwise in their elements, until these are in memory. They can stand in the kernel of the product."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...analysis.bodies.body_summary import Body
from ...analysis.memory.buffers import ALIASES
from ...fusion.joined_products import readers_of
from ...ir import builders
from ...ir.attributes import literal
from ...ir.memory_ops import WHOLE
from ...ir.regions import op_in
from ...ir.shapes import constant, expr, shape_of
from ...mlir import affine, arith, ir


@dataclass(frozen=True)
class Pieces:
    """The compute `op`, two matrices beside each other, each of half its columns: a `cat`."""

    op: ir.Operation
    sources: tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class Tail:
    """Pointwise computes that read some values, and one another, at their own element; matrices of two of these beside each other; and which of
    the values are in memory, for something else than computes reads them."""

    computes: list[ir.Operation] = field(default_factory=list)
    pieces: list[Pieces] = field(default_factory=list)
    stored: list[ir.Value] = field(default_factory=list)


def tail_of(values: Sequence[ir.Value]) -> Tail | None:
    """The tail of `values`, of equal sizes; None where a compute that is none of it reads what is, for it might compute that again."""
    tail, known, cats = Tail(), list(values), list[ir.Operation]()
    for value in known:  # grows
        for reader in _users(value):
            if reader.name in ALIASES:
                if _read_by_computes(reader.results[0]):
                    return None
                tail.stored.append(value)
            elif reader.name != "bascule.compute":
                tail.stored.append(value)
            elif _is_at_own_element(reader, value):
                if reader not in tail.computes:
                    tail.computes.append(reader)
                    known.append(reader.results[0])
            elif reader not in cats:
                cats.append(reader)
    for cat in cats:
        pieces = pieces_of(cat)
        if pieces is None or _read_by_computes(cat.results[0]) or any(each not in known for each in pieces.sources):
            return None
        tail.pieces.append(pieces)
    return tail


def _users(value: ir.Value) -> list[ir.Operation]:
    """The ops at the top level that use a value, each once, in some order."""
    block, found = value.owner.operation.block, list[ir.Operation]()
    for use in value.uses:
        user = op_in(block, use.owner.operation)
        if user not in found:
            found.append(user)
    return found


def _read_by_computes(value: ir.Value) -> bool:
    return any(reader.name == "bascule.compute" for reader in readers_of(value))


def _is_at_own_element(compute: ir.Operation, value: ir.Value) -> bool:
    """Whether a compute, of no loops, is of the sizes of `value` and reads it at its own index alone."""
    body = Body(compute)
    reads = [read for read in body.reads if read.buffer == value]
    indices = list(compute.regions[0].blocks[0].arguments)
    return body.is_pointwise and body.root.sizes == shape_of(value) and all(read.indices == indices for read in reads)


def pieces_of(compute: ir.Operation) -> Pieces | None:
    """The two matrices that a compute puts beside each other; None for another compute."""
    block, sizes = compute.regions[0].blocks[0], list(map(constant, shape_of(compute.results[0])))
    *ops, end = [view.operation for view in block.operations if view.operation.name != "arith.constant"]
    if [op.name for op in ops] != ["arith.cmpi", "scf.if"] or len(sizes) != 2 or sizes[1] is None or sizes[1] % 2:
        return None
    compared, chosen = ops
    half = sizes[1] // 2
    row, column = block.arguments
    predicate = compared.attributes["predicate"].value == arith.CmpIPredicate.slt
    at_half = compared.operands[0] == column and literal(compared.operands[1]) == half
    whole = end.operands[0] == chosen.results[0] and chosen.operands[0] == compared.results[0]
    reads = [_read(region, row, column, first) for region, first in zip(chosen.regions, (0, half))]
    first, second = reads
    if not (predicate and at_half and whole) or first is None or second is None:
        return None
    wanted = [sizes[0], half]
    equal = all(list(map(constant, shape_of(each))) == wanted for each in (first, second))
    return Pieces(compute, (first, second)) if equal else None


def _read(region: ir.Region, row: ir.Value, column: ir.Value, first: int) -> ir.Value | None:
    """The matrix that a region reads at `row` and so many columns before `column`, and yields unchanged."""
    ops = [view.operation for view in region.blocks[0].operations]
    applies = [op for op in ops if op.name == "affine.apply"]
    reads = [op for op in ops if op.name == "tensor.extract"]
    if len(reads) != 1 or len(ops) != len(applies) + 2 or ops[-1].operands[0] != reads[0].results[0]:
        return None
    source, *places = reads[0].operands
    if len(places) != 2 or places[0] != row:
        return None
    if places[1] == column:
        return source if first == 0 else None
    made = places[1].owner
    if isinstance(made, ir.Block) or made.name != "affine.apply" or list(made.operands) != [column]:
        return None
    before = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0) - first])
    return source if made.attributes["map"].value == before else None


def laid(type_: ir.RankedTensorType, sources: Sequence[ir.Value]) -> ir.Value:
    """A matrix of floats of `type_`, of `sources` beside each other, of as many columns each: each point stores an element of every one."""
    sizes = shape_of(sources[0])
    columns = constant(sizes[1])
    assert columns is not None

    def store(at: list[ir.Value], dest: ir.Value) -> None:
        row, column = at
        for number, source in enumerate(sources):
            place = column
            if number:
                shift = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0) + number * columns])
                place = affine.apply(shift, [column])
            builders.store(builders.read(source, at), dest, [row, place])

    sizes_of_all = [expr(size) for size in type_.shape]
    nothing = builders.compute(type_, sizes_of_all, lambda _: arith.constant(type_.element_type, 0.0))
    result = builders.scatter(nothing, sizes, store)
    result.owner.attributes[WHOLE] = ir.UnitAttr.get()
    return result
