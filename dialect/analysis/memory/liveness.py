"""When the buffers of a program are needed. Times are numbers of ops of the graph function's block."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.functions import BEGINS, DIES, EXTERN, argument_attributes
from ...mlir import ir
from .buffers import ALIASES, root_of

# Operators whose results are known to be their own: no memory of an operand, of another result, of a cache.
OWNERS = ("aten.", "mkldnn.")


@dataclass(eq=False)
class Buffer:
    """One `memref.alloc`, or a result of an ATen function: made at time `first`, freed at `last` (the end of the block, if it escapes)."""

    value: ir.Value
    first: int
    last: int
    allocated: bool = True  # by a `memref.alloc`
    escapes: bool = False  # it is returned, or seen by something that is
    apart: bool = False  # a collective works in it: its wait is found by the storage, which is to be no other buffer's
    frees: list[ir.Operation] = field(default_factory=list)
    written: int = -1  # the first op that uses it
    read: int = -1  # the last op that uses it


def buffers_of(ops: Sequence[ir.Operation], table: ir.SymbolTable, owners: tuple[str, ...] = OWNERS) -> list[Buffer]:
    """The allocations among `ops` and the results of operators whose names begin as `owners`, in order. A value and its views are one buffer."""
    buffers: dict[ir.Value, Buffer] = {}
    for number, op in enumerate(ops):
        name = op.name
        if name == "memref.alloc":
            buffers[op.results[0]] = Buffer(op.results[0], number, len(ops))
            continue
        for operand in op.operands:
            buffer = buffers.get(operand)
            if buffer is None:
                if not isinstance(operand.type, ir.MemRefType):
                    continue
                buffer = buffers.get(root_of(operand))
                if buffer is None:
                    continue
            if name in ALIASES:
                continue
            if name == "memref.dealloc":
                buffer.last = number
                buffer.frees.append(op)
            else:
                buffer.read = number
                if buffer.written < 0:
                    buffer.written = number
                buffer.escapes |= name == "func.return"
        if name != "func.call":
            continue
        attributes = table[op.attributes["callee"].value].operation.attributes
        if BEGINS in attributes and not len(op.results):
            for operand in op.operands:
                if root_of(operand) in buffers:
                    buffers[root_of(operand)].apart = True
        elif EXTERN in attributes and attributes[EXTERN].value.startswith(owners):
            for result in op.results:
                if isinstance(result.type, ir.MemRefType):
                    buffers[result] = Buffer(result, number, len(ops), allocated=False, written=number)
    return list(buffers.values())


def dying_arguments(
    graph: ir.Operation, ops: Sequence[ir.Operation], kinds: Sequence[str] = (DIES,)
) -> dict[ir.Value, int]:
    """The tensor arguments whose memory is freed when they are dropped (by an attribute of `kinds`, those of the first one first), with the
    numbers of the ops that use them last."""
    arguments = zip(graph.regions[0].blocks[0].arguments, argument_attributes(graph), strict=True)
    told = [(a, known) for a, known in arguments if isinstance(a.type, ir.MemRefType)]
    last = {a: 0 for kind in kinds for a, known in told if kind in known}
    for number, op in enumerate(ops):
        for operand in op.operands:
            root = root_of(operand)
            if root in last:
                last[root] = number
    return last
