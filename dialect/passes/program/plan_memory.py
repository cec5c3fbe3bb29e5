"""The pass `plan-memory`: intermediates are placed in one arena, results over operands that die."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.arena_placement import ALIGNMENT, KEPT, Interval, aligned, apart, color, largest_live_set, place
from ...analysis.memory.assumed_sizes import assumed
from ...analysis.memory.buffers import (
    ALIASES,
    Sizes,
    bytes_of,
    moved_by,
    root_of,
    seen_as,
    strides,
    values_of,
)
from ...analysis.memory.in_place import InPlace
from ...analysis.memory.liveness import Buffer, buffers_of, dying_arguments
from ...ir import builders
from ...ir.attribute_names import ARENA, MEMORY
from ...ir.attributes import i64
from ...ir.functions import EXTERN, OVER, graph_functions, is_extern, kernel_op
from ...ir.shapes import constant, expr, row_major, size_map
from ...ir.types import byte_width
from ...mlir import arith, ir, memref
from ..base import BUFFERS, Pass, check_target
from .choose_products import LINEAR


@dataclass(frozen=True)
class _Memory:
    """`kept`: bytes from which a buffer stays in the arena, if there is such a bound: a fresh block of that size costs a page fault every 4 KiB.
    `slack`: the peak may be so many times a part of itself above the least. `worth`: bytes of the peak that are worth one more allocation, if
    it is weighed: about a microsecond of the host's. `freed`: an arena of more bytes, if there are any, is freed after its last use."""

    kept: int | None
    slack: int
    worth: int = 0
    freed: int | None = None


MEMORIES = {
    "cpu": _Memory(kept=32 << 20, slack=128),
    "cuda": _Memory(kept=None, slack=1024, worth=1 << 16, freed=KEPT),
}
MEMORIES["interpret"] = MEMORIES["cuda"]


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Takes the program stage with an allocation each buffer; leaves the intermediates in one arena.

    First, a kernel's result takes the memory of an operand that dies there (an allocation, or what an operator of torch's made, or a view of
    one from its start), where the kernel reads each element before it writes it. It may be of another shape, if both are dense and the
    result is not returned. Then what is not returned gets a place in the arena: static sizes by best fit over
    their lives, sizes with symbols behind them, one place for all buffers of one size that are never needed together. A large
    buffer that is not alive when most memory is (arguments that die and what is returned counted) keeps an allocation of its own, if the
    arena would otherwise raise the peak; so does what a collective works on in place, which PyTorch knows by its storage. On a GPU the arena
    is freed after its last use, and all that is needed until the peak, or from it on, is apart where that takes fewer allocations: the arena
    then begins, or ends, elsewhere. `bascule.memory` on the graph function has the bytes `asked` for, those of the `arena`, those `apart`
    if there are any, and those of the largest set of static buffers of the arena `live` at one time, the least it can have.
    """

    name: ClassVar[str] = "plan-memory"
    takes: ClassVar[str] = BUFFERS
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                _plan(graph, table, MEMORIES[self.target])


def _plan(graph: ir.Operation, table: ir.SymbolTable, target: _Memory) -> None:
    ops = [op.operation for op in graph.regions[0].blocks[0].operations]
    buffers, sizes = buffers_of(ops, table), Sizes(graph, table)
    size = {b.value: bytes_of(b.value.type, sizes.of(b.value)) for b in buffers if b.allocated}
    asked = sum((size[b.value] for b in buffers if b.allocated and not b.escapes), expr(0))
    given, copies = dying_arguments(graph, ops), _copies(ops, sizes)
    buffers = _reuse(ops, buffers, table)
    buffers = _over_arguments(graph, buffers, given)
    buffers, own = _apart(buffers, given, copies, len(ops), sizes, target)

    static = [b for b in buffers if constant(size[b.value]) is not None]
    intervals = [Interval(b.first, b.last, aligned(size[b.value].value)) for b in static]
    offsets, end = place(intervals)
    places: dict[ir.Value, ir.AffineExpr] = {b.value: expr(offset) for b, offset in zip(static, offsets)}
    total = expr(end)
    for bytes_, group in _by_size(buffers, size).items():
        numbers, count = color([Interval(b.first, b.last, 0) for b in group])
        step = ir.AffineExpr.get_ceil_div(bytes_, expr(ALIGNMENT)) * ALIGNMENT
        places.update({b.value: total + step * number for b, number in zip(group, numbers)})
        total = total + step * count

    if places:
        first = ops[min(buffer.first for buffer in buffers)]
        arena = _Arena(graph, first, total)
        last = max(buffer.last for buffer in buffers)
        known = constant(total)
        if target.freed is not None and (known is None or known > target.freed) and last < len(ops):
            arena.free_after(ops[last])
        for buffer in buffers:
            arena.put(buffer, places[buffer.value], sizes.of(buffer.value))
    report = {"asked": asked, "arena": total, "live": expr(largest_live_set(intervals))}
    if own:
        report["apart"] = sum((size[b.value] for b in own), expr(0))
    graph.attributes[MEMORY] = ir.DictAttr.get({name: _number(e) for name, e in report.items()})


def _over_arguments(graph: ir.Operation, buffers: Sequence[Buffer], given: dict[ir.Value, int]) -> list[Buffer]:
    """The buffers but those that are to lie in the memory of an argument, which is needed as long as they are then."""
    arguments, left = graph.regions[0].blocks[0].arguments, []
    for buffer in buffers:
        op = buffer.value.owner.operation
        if buffer.allocated and OVER in op.attributes:
            argument = arguments[op.attributes[OVER].value]
            given[argument] = max(given.get(argument, 0), buffer.last)
        else:
            left.append(buffer)
    return left


def _copies(ops: Sequence[ir.Operation], sizes: Sizes) -> list[tuple[int, ir.Value]]:
    """The matrices that calls of oneDNN's product copy before they multiply, with the number of the call."""
    found = []
    for number, op in enumerate(ops):
        callee = sizes.table[op.attributes["callee"].value].operation if op.name == "func.call" else None
        if callee is None or not is_extern(callee) or callee.attributes[EXTERN].value != LINEAR:
            continue
        x = op.operands[0]
        if strides(x.type) != row_major(sizes.of(x)):
            found.append((number, x))
    return found


def _apart(
    buffers: Sequence[Buffer],
    given: dict[ir.Value, int],
    copies: Sequence[tuple[int, ir.Value]],
    end: int,
    sizes: Sizes,
    target: _Memory,
) -> tuple[list[Buffer], list[Buffer]]:
    """The intermediates for the arena, and those that keep an allocation of their own."""

    def life(value: ir.Value, first: int, last: int) -> Interval:
        shape = sizes.of(value)
        spanned, held = bytes_of(value.type, shape), expr(byte_width(value.type.element_type))
        for size in shape:
            held = held * size  # a view may span more, of which other views hold the rest
        return Interval(first, last, min(assumed(spanned), assumed(held)))

    inner = [b for b in buffers if b.allocated and not b.escapes and not b.apart]
    lives = [life(b.value, b.first, b.last) for b in inner]
    made = [life(b.value, b.first, b.last) for b in buffers if not b.allocated or b.escapes or b.apart]
    made += [life(value, number, number) for number, value in copies]
    made += [life(value, 0, last) for value, last in given.items()]
    moved = apart(
        lives,
        made,
        end,
        target.slack,
        lambda life: target.kept is None or life.size < target.kept,
        worth=target.worth,
        freed=target.freed,
    )
    own = [b for b in buffers if b.allocated and not b.escapes and b.apart]
    return [b for n, b in enumerate(inner) if n not in moved], own + [inner[n] for n in sorted(moved)]


def _by_size(buffers: Sequence[Buffer], size: dict[ir.Value, ir.AffineExpr]) -> dict[ir.AffineExpr, list[Buffer]]:
    """The buffers whose sizes have symbols, by size."""
    groups: dict[ir.AffineExpr, list[Buffer]] = {}
    for buffer in buffers:
        if constant(size[buffer.value]) is None:
            groups.setdefault(size[buffer.value], []).append(buffer)
    return groups


def _number(e: ir.AffineExpr) -> ir.Attribute:
    value = constant(e)
    if value is None:
        return ir.AffineMapAttr.get(size_map([e]))
    return i64(value)


def _reuse(ops: Sequence[ir.Operation], buffers: Sequence[Buffer], table: ir.SymbolTable) -> list[Buffer]:
    """Puts kernels' results over operands that die; the buffers that remain."""
    known = {buffer.value: buffer for buffer in buffers}
    kernels: dict[str, InPlace] = {}
    dead: list[ir.Operation] = []
    for number, op in enumerate(ops):
        if op.name != "func.call":
            continue
        operands = list(op.operands)
        made = {i: known[v] for i, v in enumerate(operands) if v in known and known[v].written == number}
        made = {i: new for i, new in made.items() if OVER not in new.value.owner.attributes}
        dying = {i: known[root_of(v)] for i, v in enumerate(operands) if root_of(v) in known}
        dying = {i: old for i, old in dying.items() if old.read == number}
        name = op.attributes["callee"].value
        if len(made) == 0 or len(dying) == 0 or kernel_op(table[name].operation) is None:
            continue
        if name not in kernels:
            kernels[name] = InPlace(table[name].operation)
        seen = [root_of(v) for v in operands if isinstance(v.type, ir.MemRefType)]
        for i, old in dying.items():
            if i in made or seen.count(old.value) > 1 or not _at_start(operands[i]):
                continue
            j = next((j for j in made if _takes(made[j], operands[i], old) and kernels[name].allows(i, j)), None)
            if j is not None:
                new = made.pop(j)
                del known[new.value]
                dead += [*old.frees, new.value.owner.operation]
                for free in new.frees:
                    free.operands[0] = old.value
                new.value.replace_all_uses_with(seen_as(new.value.type, operands[i], op))
                old.last, old.read, old.escapes, old.frees = new.last, new.read, new.escapes, new.frees
                old.apart |= new.apart
    for op in dead:
        op.erase()
    return list(known.values())


def _at_start(value: ir.Value) -> bool:
    """Whether `value` begins where its buffer does, so that it is aligned as the buffer is."""
    while value.owner is not None and not isinstance(value.owner, ir.Block) and value.owner.operation.name in ALIASES:
        op = value.owner.operation
        if op.name == "bascule.view" and constant(moved_by(op)) != 0:
            return False
        value = op.operands[0]
    return True


def _takes(new: Buffer, operand: ir.Value, old: Buffer) -> bool:
    """Whether `new` may lie where `operand`, a view of `old`, does: what is returned is no view of another tensor."""
    return not new.escapes or (operand == old.value and new.value.type == operand.type)


class _Arena:
    """The arena, made before the first of the buffers in it, when arguments that are needed no more have been freed."""

    def __init__(self, graph: ir.Operation, first: ir.Operation, size: ir.AffineExpr):
        self.symbols = builders.symbols_of(graph)
        self.offsets: dict[ir.AffineExpr, ir.Value] = {}
        self.i8 = ir.IntegerType.get_signless(8)
        with ir.InsertionPoint(first), graph.location:
            count = constant(size)
            dynamic = [] if count is not None else values_of([size], self.symbols)
            type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size() if count is None else count], self.i8)
            self.value = memref.AllocOp(type_, dynamic, []).result
            self.value.owner.attributes[ARENA] = ir.UnitAttr.get()
        self.last = self.value.owner.operation  # the offsets follow it

    def free_after(self, op: ir.Operation) -> None:
        with ir.InsertionPoint.after(op), op.location:
            memref.dealloc(self.value)

    def put(self, buffer: Buffer, offset: ir.AffineExpr, sizes: list[ir.AffineExpr]) -> None:
        """Replaces the allocation of `buffer`, of `sizes`, by a view of the arena at byte `offset`."""
        alloc = buffer.value.owner.operation
        if offset not in self.offsets:
            with ir.InsertionPoint.after(self.last), self.last.location:
                number = constant(offset)
                if number is None:
                    (value,) = values_of([offset], self.symbols)
                else:
                    value = arith.constant(ir.IndexType.get(), number)
            self.offsets[offset], self.last = value, value.owner.operation
        with ir.InsertionPoint(alloc), alloc.location:
            view = self._view(buffer.value.type, self.offsets[offset], sizes)
        for op in buffer.frees:
            op.erase()
        buffer.value.replace_all_uses_with(view)
        alloc.erase()

    def _view(self, type_: ir.MemRefType, offset: ir.Value, sizes: list[ir.AffineExpr]) -> ir.Value:
        if type_.has_static_shape and type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank)):
            return memref.view(type_, self.value, offset, [])
        steps = strides(type_)
        length = bytes_of(type_, sizes, width=1)
        count = constant(length)
        flat = ir.MemRefType.get([ir.ShapedType.get_dynamic_size() if count is None else count], type_.element_type)
        whole = memref.view(flat, self.value, offset, [] if count is not None else values_of([length], self.symbols))
        dynamic = ir.ShapedType.get_dynamic_size()

        def split(exprs: list[ir.AffineExpr]) -> tuple[list[ir.Value], list[int]]:
            known = [constant(e) for e in exprs]
            values = values_of([e for e, k in zip(exprs, known) if k is None], self.symbols)
            return values, [dynamic if k is None else k for k in known]

        (size_values, static_sizes), (stride_values, static_strides) = split(sizes), split(steps)
        return memref.reinterpret_cast(type_, whole, [], size_values, stride_values, [0], static_sizes, static_strides)
