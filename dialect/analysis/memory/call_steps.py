"""The calls of a graph function as steps: what comes before what, and which buffers each makes and uses. Of values: computes among
them use what their regions read."""

from collections.abc import Sequence

from ...host_copies.calls import is_on_host
from ...ir.functions import DIES, EFFECTS, EXTERN, STORAGES
from ...ir.shapes import shape_of
from ...mlir import ir
from ..bodies.backward_slice import captured
from .assumed_sizes import SYMBOLS, assumed
from .buffers import bytes_of, memref_type, root_of
from .call_order import Step
from .workspaces import workspace

READERS = (
    "_c10d_functional.",
    "aten._assert",
    "bascule.",
    "bascule_host.",
)  # operators with effects that only read what they take
WAIT = ".wait_tensor.default"  # which gives the tensor that it takes


def steps_of(
    ops: Sequence[ir.Operation],
    end: ir.Operation,
    table: ir.SymbolTable,
    in_order: bool = True,
    symbols: Sequence[int] = SYMBOLS,
    threads: int = 0,
) -> tuple[list[Step], list[int], set[int]]:
    """A step an op; the bytes of each buffer (a tensor that a call returns, or the storage of arguments that die, which no step makes); the
    buffers that are returned. `in_order`: calls with effects
    come in the order of the program; without, their order is the caller's to keep. `symbols`: as `SYMBOLS`. `threads`: of a CPU, whose operators
    take memory of their own; 0 on another device, of whose nothing is known."""
    steps, sizes = [Step() for _ in ops], list[int]()
    makers: dict[ir.Value, int] = {}  # value -> step
    buffers = _dying(end, sizes, symbols)
    writer: dict[ir.Value, int] = {}  # root -> the step that wrote it last
    readers: dict[ir.Value, list[int]] = {}  # root -> the steps that read it since
    effect: int | None = None
    for number, (op, step) in enumerate(zip(ops, steps)):
        operands, written = [*op.operands, *(captured(op) if len(op.regions) else ())], []
        attributes = table[op.attributes["callee"].value].operation.attributes if op.name == "func.call" else {}
        if op.name == "bascule.copy_into":
            written = operands[1:]
        if EFFECTS in attributes:
            if effect is not None and in_order:
                step.after.add(effect)
            effect = number
            if not attributes[EXTERN].value.startswith(READERS):
                # It may do anything to an argument: give its storage back, for example.
                written = [x for x in operands if isinstance(root_of(x), ir.BlockArgument)]
        for value in operands:
            if value in makers:
                step.after.add(makers[value])
            root = root_of(value)
            if root in buffers:
                step.uses.add(buffers[root])
            if root in writer:
                step.after.add(writer[root])
            readers.setdefault(root, []).append(number)
        for root in map(root_of, written):
            step.after |= {*readers[root]} - {number}
            readers[root], writer[root] = [], number
        makers.update(dict.fromkeys(op.results, number))
        if EXTERN in attributes and threads:
            callee = table[op.attributes["callee"].value].operation
            step.takes = workspace(op, callee, lambda value: _bytes(value, symbols), shape_of, threads)
        if EXTERN in attributes and attributes[EXTERN].value.endswith(WAIT):
            buffers.update((op.results[0], buffers[root]) for root in (root_of(operands[0]),) if root in buffers)
        if op.name == "func.call":
            for result in (result for result in op.results if result not in buffers):
                buffers[result] = len(sizes)
                step.makes.append(len(sizes))
                sizes.append(0 if is_on_host(result, table) else _bytes(result, symbols))
    kept = {buffers[root] for root in map(root_of, end.operands) if root in buffers}
    return steps, sizes, kept


def _dying(end: ir.Operation, sizes: list[int], symbols: Sequence[int]) -> dict[ir.Value, int]:
    """The arguments that die in the function that `end` ends, each with the number of its storage, whose bytes are added to `sizes`."""
    graph = end.parent.operation
    if "arg_attrs" not in graph.attributes:
        return {}
    arguments = list(graph.regions[0].blocks[0].arguments)
    tensors = [n for n, each in enumerate(arguments) if isinstance(each.type, ir.RankedTensorType | ir.MemRefType)]
    storages = list(graph.attributes[STORAGES]) if STORAGES in graph.attributes else [-1] * len(tensors)
    found: dict[ir.Value, int] = {}
    numbers: dict[int, int] = {}
    for number, storage in zip(tensors, storages):
        if DIES in graph.attributes["arg_attrs"][number]:
            size = _bytes(arguments[number], symbols)
            buffer = numbers.setdefault(storage if storage >= 0 else -1 - number, len(sizes))
            sizes += [0] * (buffer + 1 - len(sizes))
            sizes[buffer] = max(sizes[buffer], size)
            found[arguments[number]] = buffer
    return found


def _bytes(value: ir.Value, symbols: Sequence[int]) -> int:
    """The size of a tensor, with the same number for each symbol."""
    return assumed(bytes_of(memref_type(value.type), shape_of(value)), symbols)
