"""How kernels run on a CPU: the choice behind each key of `#bascule.schedule`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir.memory import StoreOp
from ..ir.types import byte_width
from ..mlir import ir
from .bodies import magnitude, sizes_of
from .indexing import Indexing
from .layouts import fastest_dim, unit_bases

INNER_LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute", "bascule.scan")
TASK = 1 << 15  # elements that are worth a task of their own
TILE = 32  # points along each side of a tile: two cache lines of f32
UNROLL = 4  # vectors in flight: enough to hide the latency of an addition
SCALAR = 4  # bytes that a lane takes where no memory is accessed along it
SHORT = 4  # a loop of fewer points than this is not worth lanes of its own


@dataclass(frozen=True)
class CpuMachine:
    """What a schedule depends on: the width of a vector register in bits."""

    vector_bits: int


@dataclass
class _Accesses:
    """Of one loop nest: for each index value, how many element accesses (weighted) run along memory with it."""

    along: Counter[ir.Value] = field(default_factory=Counter)
    stores: list[ir.Operation] = field(default_factory=list)
    widths: list[tuple[int, set[ir.Value]]] = field(
        default_factory=list
    )  # bytes of an element, the indices it varies with
    steps: int = 1  # elements of all inner loops at one point
    scans: bool = False


def cpu_schedule(kernel: ir.Operation, machine: CpuMachine, indexing: Indexing) -> ir.DictAttr:
    """The schedule of one `bascule.kernel`."""
    inner = _inner_loops(kernel)
    if not kernel.regions[0].blocks[0].arguments and len(inner) > 1 and all(o.name == "bascule.foreach" for o in inner):
        parts = [ir.DictAttr.get(_part(op, machine, indexing)) for op in inner]
        schedule = {"kind": ir.StringAttr.get("group"), "parts": ir.ArrayAttr.get(parts)}
    else:
        schedule = _part(kernel, machine, indexing)
    return ir.DictAttr.get({"target": ir.StringAttr.get("cpu"), **schedule})


def _inner_loops(loop: ir.Operation) -> list[ir.Operation]:
    return [view.operation for view in loop.regions[0].blocks[0].operations if view.operation.name in INNER_LOOPS]


def _part(loop: ir.Operation, machine: CpuMachine, indexing: Indexing) -> dict[str, ir.Attribute]:
    """The schedule of a kernel, or of one top-level foreach of a group."""
    block = loop.regions[0].blocks[0]
    domain, inner = list(block.arguments), _inner_loops(loop)
    sizes = sizes_of(loop)
    accesses = _Accesses()
    indexing.enter(loop)
    _collect(block, 1, accesses, indexing)
    points = magnitude(sizes)
    serial = any(_collides(store) for store in accesses.stores)
    ranges = [list(op.regions[0].blocks[0].arguments) for op in inner]
    along_domain = sum(accesses.along[v] for v in domain)
    along_inner = sum(accesses.along[v] for args in ranges for v in args)
    tiny = all(magnitude(sizes_of(op)) < SHORT for op in inner)
    kind, vector_dim, loops = "pointwise", -1, [-1] * len(inner)
    if domain and (not inner or tiny or along_domain > along_inner):
        vector_dim = _most(domain, accesses.along, sizes)
        kind = "column" if inner else "pointwise"
    elif inner:
        kind = "row"
        loops = [_most(args, accesses.along, sizes_of(op)) for args, op in zip(ranges, inner)]
    if accesses.scans:
        kind = "scan"
        loops = [-1 if op.name == "bascule.scan" else place for op, place in zip(inner, loops)]
    if serial:
        kind = "scatter"
        vector_dim, loops = _apart(accesses.stores, domain, indexing), [-1] * len(inner)
    vectorized = {domain[vector_dim]} if vector_dim >= 0 else set()
    vectorized |= {args[place] for args, place in zip(ranges, loops) if place >= 0}
    width = max((w for w, bases in accesses.widths if bases & vectorized), default=SCALAR)
    lanes = max(1, machine.vector_bits // 8 // width) if vectorized else 1
    tile = [0] * len(domain)
    if kind == "pointwise" and vector_dim >= 0:
        others = [
            d for d, v in enumerate(domain) if d != vector_dim and accesses.along[v] and magnitude([sizes[d]]) >= 8
        ]
        if others:
            other = max(others, key=lambda d: accesses.along[domain[d]])
            tile[vector_dim] = tile[other] = TILE
    grain = max(1, TASK // accesses.steps)
    if kind == "column":
        grain = max(grain, lanes * UNROLL)
    return {
        "kind": ir.StringAttr.get(kind),
        "vector": _i64(lanes),
        "vector_dim": _i64(vector_dim),
        "loops": ir.DenseI64ArrayAttr.get(loops),
        "unroll": _i64(1 if lanes == 1 else UNROLL),
        "tile": ir.DenseI64ArrayAttr.get(tile),
        "grain": _i64(0 if serial or points <= grain else grain),
        "serial": ir.BoolAttr.get(serial),
    }


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _collect(block: ir.Block, times: int, accesses: _Accesses, indexing: Indexing) -> None:
    for view in block.operations:
        op = view.operation
        name = op.name
        if name == "tensor.extract":
            _access(op.operands[0].type, list(op.operands)[1:], times, accesses, indexing)
        elif name == StoreOp.OPERATION_NAME:
            _access(op.operands[1].type, list(op.operands)[2:], 2 * times, accesses, indexing)
            accesses.stores.append(op)
        elif len(op.regions):
            inner = times
            if name in INNER_LOOPS:
                indexing.enter(op)
                inner = times * magnitude(sizes_of(op))
                accesses.steps = max(accesses.steps, inner)
                accesses.scans |= name == "bascule.scan"
            for region in op.regions:
                for nested in region.blocks:
                    _collect(nested, inner, accesses, indexing)


def _access(type_: ir.Type, indices: Sequence[ir.Value], times: int, accesses: _Accesses, indexing: Indexing) -> None:
    element = type_.element_type
    narrow = isinstance(element, ir.F16Type | ir.BF16Type)  # computed with in f32
    width = min(8, max(byte_width(element), 4 if narrow else 1))
    accesses.widths.append((width, {base for index in indices for base in indexing.resolve(index)[1]}))
    dim = fastest_dim(type_)
    if dim is not None:
        for base in unit_bases(indexing.resolve(indices[dim])):
            accesses.along[base] += times


def _most(indices: Sequence[ir.Value], along: Counter[ir.Value], sizes: Sequence[ir.AffineExpr]) -> int:
    """Which of `indices` runs along memory most often: the last of them where none does or several do."""
    numbers = [n for n in range(len(indices)) if magnitude([sizes[n]]) >= SHORT]
    return max(numbers, key=lambda n: (along[indices[n]], n), default=-1)


def _collides(store: ir.Operation) -> bool:
    """Whether points may store to one place, or the order of points says what is left: a scatter's store."""
    if "mode" in store.attributes and store.attributes["mode"].value != "set":
        return True
    owner = store.operands[1].owner
    return (
        not isinstance(owner, ir.Block)
        and owner.operation.name == "bufferization.alloc_tensor"
        and owner.operation.attributes["operandSegmentSizes"][1] == 1
    )


def _apart(stores: Sequence[ir.Operation], domain: Sequence[ir.Value], indexing: Indexing) -> int:
    """A domain dim that itself is the index along memory of every store: its points never store to one place."""
    common: set[ir.Value] | None = None
    for store in stores:
        dim = fastest_dim(store.operands[1].type)
        expression, bases = indexing.resolve(list(store.operands)[2 + dim]) if dim is not None else (None, ())
        here = {bases[0]} if isinstance(expression, ir.AffineDimExpr) else set()
        common = here if common is None else common & here
    return next((d for d, v in enumerate(domain) if v in (common or ())), -1)
