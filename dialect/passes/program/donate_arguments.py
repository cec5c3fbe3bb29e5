"""The pass `spare-arguments`: large results lie where arguments did whose memory the call may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.buffers import Sizes, bytes_of, root_of
from ...analysis.memory.in_place import InPlace
from ...analysis.memory.liveness import Buffer, buffers_of
from ...ir.attributes import i64
from ...ir.functions import OVER, SPARE, graph_functions, kernel_op
from ...ir.shapes import constant
from ...mlir import ir
from ..base import BUFFERS, Pass

LARGE = 1 << 20  # bytes from which it is worth looking, at each call, whether it may


@dataclass(frozen=True)
class SpareArguments(Pass):
    """Takes and leaves the program stage, before `plan-memory`. Marks the allocation of a result of a megabyte or more with
    `bascule.over = n`, where argument n is `bascule.spare`, dies at the kernel that makes the result, and is read there before the result is
    written, element by element. An argument is given to one result.

    Whether the memory of such an argument is nobody else's shows when the program is called: then the result lies in it, else it has
    memory of its own.
    """

    name: ClassVar[str] = "spare-arguments"
    takes: ClassVar[str] = BUFFERS

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                spare = _spare(graph)
                if spare:
                    _mark(graph, spare, table)


def _spare(graph: ir.Operation) -> dict[ir.Value, int]:
    """The arguments whose memory the call may have, with their numbers."""
    if "arg_attrs" not in graph.attributes:
        return {}
    arguments, attributes = graph.regions[0].blocks[0].arguments, graph.attributes["arg_attrs"]
    return {a: number for number, (a, known) in enumerate(zip(arguments, attributes)) if SPARE in known}


def _mark(graph: ir.Operation, spare: dict[ir.Value, int], table: ir.SymbolTable) -> None:
    ops, sizes = [op.operation for op in graph.regions[0].blocks[0].operations], Sizes(graph, table)
    last = {root_of(v): n for n, op in enumerate(ops) for v in op.operands if root_of(v) in spare}
    for buffer in buffers_of(ops, table):
        size = constant(bytes_of(buffer.value.type, sizes.of(buffer.value))) if buffer.allocated else None
        if size is None or size < LARGE or buffer.written < 0:
            continue
        argument = _place(buffer, ops[buffer.written], [a for a in spare if last.get(a) == buffer.written], table)
        if argument is not None:
            number = spare.pop(argument)
            buffer.value.owner.attributes[OVER] = i64(number)


def _place(buffer: Buffer, op: ir.Operation, dying: Sequence[ir.Value], table: ir.SymbolTable) -> ir.Value | None:
    """The one of `dying` in whose memory `op`, a call, may make `buffer`."""
    if not dying or op.name != "func.call":
        return None
    function = table[op.attributes["callee"].value].operation
    if kernel_op(function) is None:
        return None
    operands = list(op.operands)
    roots = [root_of(v) for v in operands if isinstance(v.type, ir.MemRefType)]
    analysis = InPlace(function)
    # Given as a whole, and once: a view may begin elsewhere.
    whole = [argument for argument in dying if argument in operands and roots.count(argument) == 1]
    made = operands.index(buffer.value)
    return next((argument for argument in whole if analysis.allows(operands.index(argument), made)), None)
