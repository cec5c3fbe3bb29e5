"""Reads and stores of a kernel's body, in memory and of rows that are near the processor."""

from collections.abc import Hashable, Set
from math import prod

from bascule.dialect.analysis.affine.linear_forms import dims_of
from bascule.dialect.ir.types import carried, scalar_type
from bascule.dialect.mlir import ir

from ..values.tiles import Tile, is_pair, spread
from .emitter import RULES, Body, Row, unsupported
from .expressions import stored
from .interleaved_loads import apart, neighbours, wide_range
from .memory import Condition

EVICTIONS = {"normal": 1, "first": 2, "last": 3}  # Triton's numbers


def load(body: Body, op: ir.Operation) -> None:
    type_ = op.operands[0].type
    scalar = body.checked(op, carried(type_.element_type))
    address = body.expressions.address(op)
    if op in body.read_with or _load_neighbours(body, op, scalar):
        body.read_with.discard(op)
        return
    atoms = dims_of(address)
    known = (
        atoms if atoms <= body.expressions.extents.keys() else None
    )  # an index from data has any value outside of a tile
    with body.memory.without(_needless(body, op)):
        key = _read_as(body, op, address, known)
        if key is None or (tile := body.b.known(key)) is None:
            tile = _read(body, op, address, known)
            if key is not None:
                body.b.keep(key, tile, [tile.value])
    body.env[op.results[0]] = tile


def _needless(body: Body, op: ir.Operation) -> list[Condition]:
    """The guards in force without which `op` reads no less of memory: it is inside of its buffer anyway, and at elements that many points read,
    of which some are guarded and some are not. With them, each point would read for itself."""
    guards = [c for c in body.memory.conditions if c.guard and c.tile.axes]
    if not guards or body.memory.filling is not None or not body.expressions.always_inside(op):
        return []
    axes = set(body.ix.address(body.expressions.apart(op)[0]).axes)
    return [c for c in guards if not set(c.tile.axes) <= axes]


def _read_as(body: Body, op: ir.Operation, address: ir.AffineExpr, known: Set[int] | None) -> Hashable:
    """Equal for two loads of which one is made: sums that are walked together read in good part the same. None where that is not known."""
    place = body.ix.place(body.expressions.linear[op])
    if place is None:
        return None
    concerned = [(c.tile, c.guard) for c in body.memory.conditions if c.concerns(known)]
    how = body.memory.filling, _eviction(body, address), _kept_for(body), body.way()
    return ("read", op.operands[0], place, known is None, *concerned, *how)


def _read(body: Body, op: ir.Operation, address: ir.AffineExpr, known: Set[int] | None) -> Tile:
    type_ = op.operands[0].type
    multiplies = body.loop is not None and body.loop.multiplies
    rest, start = (address, 0) if multiplies else body.expressions.apart(op)
    offset = _over_lanes(body, body.ix.address(rest, by_axes=multiplies))
    return body.memory.load(
        _buffer(body, op, 0),
        offset,
        stored(type_),
        carried(type_.element_type),
        _eviction(body, address),
        _kept_for(body),
        start,
        known,
        nullable=op.operands[0] in body.nullable,
    )


def _kept_for(body: Body) -> int | None:
    """The number of the walk whose reads stay in registers for later ones, None for others."""
    return body.loop.walk if body.loop is not None and body.loop.keeps else None


def _load_neighbours(body: Body, op: ir.Operation, scalar: ir.Type) -> bool:
    """Whether `op` is one of loads that read all elements by turns; then one load has read them all."""
    loop = body.loop
    if loop is None or loop.axis is None or loop.multiplies or loop.keeps or body.memory.conditions:
        return False
    if op.operands[0] in body.nullable or is_pair(scalar):
        return False
    found = neighbours(body.expressions, body.ix, op, loop.axis)
    if found is None:
        return False
    loads, atom, rest = found
    places, wide = wide_range(body.ix, atom, loop.axis, len(loads))
    offset = body.ix.op("arith.addi", body.ix.address(rest), places)
    if offset.axes[-1] != wide:
        return False
    evict, type_ = _eviction(body, body.expressions.address(op)), op.operands[0].type
    value = body.memory.load(_buffer(body, op, 0), offset, stored(type_), scalar, evict)
    axes = (*value.axes[:-1], loop.axis)
    body.env |= {load.results[0]: part for load, part in zip(loads, apart(body.b, value.value, axes, len(loads)))}
    body.read_with |= {load for load in loads if load != op}
    return True


def _over_lanes(body: Body, offset: Tile) -> Tile:
    """Where a loop goes point by point each thread reads for itself what depends on some axes alone: Triton would exchange it through shared
    memory, with barriers, at every point. Not beside contractions, whose tiles pass through shared memory anyway, and not fewer elements than
    threads: those Triton reads in whichever layout they are wanted."""
    if (
        body.loop is None
        or body.loop.axis is not None
        or body.loop.multiplies
        or not 0 < len(offset.axes) < len(body.axes)
        or prod(axis.extent for axis in offset.axes) < body.threads
    ):
        return offset
    return Tile(spread(body.b, offset, body.axes), body.axes)


def _eviction(body: Body, address: ir.AffineExpr) -> int:
    """As the loop at hand says; what all points of the domain read stays, and so does what points without loops read under conditions:
    such reads are several, of parts of lines."""
    if body.loop is None or body.loop.evict == "normal":
        return EVICTIONS["last" if body.guards and body.loop is None else "normal"]
    evict = "first" if body.loop.keeps else body.loop.evict  # what is kept is read once
    return EVICTIONS[evict if dims_of(address) & body.domain else "last"]


def store(body: Body, op: ir.Operation) -> None:
    shared = body.loop is not None and body.loop.axis is not None
    with body.under(None if shared or body.cluster == 1 else _first(body), True):
        _put(body, op)


def _first(body: Body) -> Tile:
    """Whether the program is the first of its cluster: what stands outside of loops all of them compute, and one stores."""
    return Tile(body.b.compare("eq", body.member.value, body.ix.number(0).value))


def _buffer(body: Body, op: ir.Operation, operand: int) -> ir.Value:
    """The pointer to the memory that an operand is: an argument of the kernel function."""
    if op.operands[operand] not in body.buffers:
        raise unsupported(op, f"'{op.name}' of what is no argument of the kernel function")
    return body.buffers[op.operands[operand]]


def _put(body: Body, op: ir.Operation) -> None:
    value, dest = body.tile(op.operands[0]), op.operands[1]
    mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
    base = _buffer(body, op, 1)
    if mode == "set":
        rest, start = body.expressions.apart(op)
        offset = body.ix.address(rest)
        again = body.loop is not None and body.loop.evict == "first"  # not to take the place of what is read again
        body.memory.store(base, offset, value, EVICTIONS["first" if again else "normal"], start)
        return
    offset = body.ix.address(body.expressions.address(op))
    refused = body.memory.atomic(base, offset, value, mode, body.axes, scalar_type(dest.type.element_type))
    if refused:
        raise unsupported(op, refused)


def extract(body: Body, op: ir.Operation) -> None:
    source, *indices = op.operands
    row = body.rows.get(source)
    if row is None:
        raise unsupported(op, f"'{op.name}' of what no loop of the kernel makes")
    made = row.op
    if row.held and _aligned(body, row, indices):
        body.env[op.results[0]] = row.held[body.loop.number]  # type: ignore[union-attr]
        return
    if made.name != "bascule.compute":
        raise unsupported(op, "a scan read at another index than its own")
    # Computed again, here: it is a pure function of its index.
    block = made.regions[0].blocks[0]
    tiles = [body.tile(index) for index in indices]
    for argument, tile in zip(block.arguments, tiles):
        body.ix.put(body.expressions.of(argument).position, tile, positive=True)
    body.env[op.results[0]] = body.block(block)[0]


def _aligned(body: Body, row: Row, indices: list[ir.Value]) -> bool:
    """Whether a read is at the point at hand: the loop's own index, in the walk that makes the row, or both are one tile."""
    loop = body.loop
    if loop is None or loop.ops[0].attributes["ranges"] != row.op.attributes["ranges"]:
        return False
    same = loop.points == 1 or (loop.whole and loop.order == row.order and loop.axis in row.held[0].axes)
    if row.op not in loop.ops and not same:
        return False
    wanted = [body.expressions.of(index) for index in indices]
    return any(
        wanted == [body.expressions.of(argument) for argument in op.regions[0].blocks[0].arguments] for op in loop.ops
    )


RULES |= {"memref.load": load, "bascule.store": store, "tensor.extract": extract}
