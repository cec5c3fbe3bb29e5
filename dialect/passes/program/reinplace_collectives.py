"""The pass `reinplace-collectives`: an all-reduce of what nothing else needs works where that lies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from ...analysis.memory.buffers import ALIASES, root_of, seen_as
from ...collectives.calls import IN_PLACE, collectives_of
from ...ir.functions import ARGUMENTS, EXTERN, RANKS, REASON, Externs, graph_functions, replace_extern_calls
from ...mlir import ir, memref
from ..base import BUFFERS, Pass


@dataclass(frozen=True)
class ReinplaceCollectives(Pass):
    """Takes and leaves the program stage, before `plan-memory`. A functional collective that copies its operand and then works on the copy
    (`all_reduce`, `broadcast`) becomes the one that works in place (`all_reduce_`), where each operand lies in an allocation that nothing but
    the waits uses from then on, and is laid out as the result. It and its waits return nothing then; what read a result reads the operand.

    Ranks need not decide alike: what they exchange is the same.
    """

    name: ClassVar[str] = "reinplace-collectives"
    takes: ClassVar[str] = BUFFERS

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            starts: dict[ir.Value, list[ir.Operation]] = {}
            for graph in graph_functions(module):
                ops = [op.operation for op in graph.regions[0].blocks[0].operations]
                for start in collectives_of(ops, table).starts.values():
                    if start.kind in IN_PLACE:
                        starts[ops[start.number].results[0]] = [ops[number] for number in start.waits]
            if starts:
                _Reinplacing(starts, Externs(module)).run(module)


@dataclass
class _Reinplacing:
    """`starts`: first result of a functional collective -> its waits. `ends`: the results of the waits of those that are in place now. (The hash
    of an op changes with its operands, that of a value does not.)"""

    starts: dict[ir.Value, list[ir.Operation]]
    externs: Externs
    ends: set[ir.Value] = field(default_factory=set)
    frees: list[ir.Operation] = field(default_factory=list)  # that are to go

    def run(self, module: ir.Module) -> None:
        replace_extern_calls(module, self._replace)
        for op in self.frees:
            op.erase()

    def _replace(self, op: ir.Operation, function: ir.Operation) -> bool:
        made = op.results[0] if len(op.results) else None
        if made in self.ends:
            self.ends.discard(made)  # before its address may be another's
            self._end(op, function)
            return True
        waits = self.starts.pop(made, [])
        if not _is_free(op, waits):
            return False
        ends = _ends(waits)
        for x, result in zip(list(op.operands), op.results):
            if x != root_of(x) and _is_returned(ends[result]):
                _make_root(x)
        self._call(op, function, IN_PLACE[function.attributes[EXTERN].value], list(op.operands))
        for x, result in zip(list(op.operands), op.results):
            self.frees += _frees(result)
            result.replace_all_uses_with(x)
        op.erase()
        self.ends.update(wait.results[0] for wait in waits)
        return True

    def _end(self, wait: ir.Operation, function: ir.Operation) -> None:
        x, *others = wait.operands
        self._call(wait, function, function.attributes[EXTERN].value, list(dict.fromkeys([x, *others])))
        result, root = wait.results[0], root_of(x)
        self.frees += [free for free in _frees(root) if free not in self.frees]
        for free in _frees(result):
            free.operands[0] = root
        result.replace_all_uses_with(x)
        wait.erase()

    def _call(self, op: ir.Operation, function: ir.Operation, operator: str, operands: Sequence[ir.Value]) -> None:
        """A call of `operator` in the place of `op`, with the same arguments, that returns nothing."""
        known = function.attributes
        with ir.InsertionPoint(op), op.location:
            self.externs.call(
                operator,
                list(known[ARGUMENTS]),
                operands,
                [],
                reason=known[REASON].value if REASON in known else None,
                effects=True,
                begins=operator in IN_PLACE.values(),
                ranks=known[RANKS].value if RANKS in known else None,
            )


def _is_free(op: ir.Operation, waits: Sequence[ir.Operation]) -> bool:
    """Whether nothing but the waits, one for each result, needs the operands of the collective `op` any more, and the results may lie there."""
    ends = _ends(waits)
    roots = [root_of(x) for x in op.operands]
    if not len(waits) == len(ends) == len(op.results) == len(set(roots)) == len(roots) > 0:
        return False
    for x, root, result in zip(op.operands, roots, op.results):
        if isinstance(root.owner, ir.Block) or root.owner.operation.name != "memref.alloc":
            return False
        if x.type != result.type or ends[result].type != x.type:
            return False
        if _is_returned(ends[result]) and x != root and not _are_whole(x.type, root.type):
            return False
        if not all(use == op or use in waits or use.is_before_in_block(op) for use in _users(root)):
            return False
    return True


def _ends(waits: Sequence[ir.Operation]) -> dict[ir.Value, ir.Value]:
    """Result of a collective -> result of the wait for it."""
    return {wait.operands[0]: wait.results[0] for wait in waits}


def _is_returned(result: ir.Value) -> bool:
    return any(use.name == "func.return" for use in _users(result))


def _are_whole(one: ir.MemRefType, other: ir.MemRefType) -> bool:
    """Whether memrefs of these types are the same elements in the same order, where one is a view of the other."""
    dense = all(
        type_.has_static_shape and type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
        for type_ in (one, other)
    )
    return dense and one.element_type == other.element_type and prod(one.shape) == prod(other.shape)


def _make_root(x: ir.Value) -> None:
    """Allocates what `x` is a view of as `x` is, and makes that the view: what is returned is no view of a tensor of another shape."""
    root = root_of(x)
    old = root.owner.operation
    with ir.InsertionPoint(old), old.location:
        new = memref.AllocOp(x.type, [], []).result
    seen = seen_as(root.type, new, old)
    for free in _frees(root):
        free.operands[0] = new
    root.replace_all_uses_with(seen)
    x.replace_all_uses_with(new)
    x.owner.operation.erase()
    old.erase()


def _users(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read or write the memory of `value`, or of a view of it; not those that free it."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in ALIASES:
            yield from _users(op.results[0])
        elif op.name != "memref.dealloc":
            yield op


def _frees(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses if use.owner.operation.name == "memref.dealloc"]
