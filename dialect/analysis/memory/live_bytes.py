"""Memory that a program holds while it runs, read from the plan that `plan-memory` left: the bytes that its allocator is asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...host_copies.calls import callee, is_on_host
from ...ir.attribute_names import ARENA
from ...ir.functions import DIES, OVER, STORAGES, argument_attributes, graph_functions, is_extern
from ...ir.locations import source_of
from ...mlir import ir
from .assumed_sizes import assumed, number_of
from .buffers import Sizes, bytes_of, root_of
from .call_steps import WAIT
from .liveness import Buffer, buffers_of
from .workspaces import workspace

GIVEN, RESULT, INTERMEDIATE, ARENA_OF = "given", "result", "intermediate", "arena"


@dataclass(frozen=True)
class Held:
    """Memory that is held from op `first` to op `last` of a program, both included. `kind`: an argument that dies (`GIVEN`), what is returned
    (`RESULT`), an allocation of its own (`INTERMEDIATE`), or the arena of all others; `place`: the user's line, if one is known;
    `numbers`: of what is given, among the arguments that are tensors, or of what is returned, among the results."""

    bytes: int
    first: int
    last: int
    kind: str
    place: str | None = None
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class LiveBytes:
    """All that a program holds, but for arguments that others hold too. `end`: the number of its last op, which returns."""

    held: tuple[Held, ...]
    end: int

    @property
    def arena(self) -> int:
        """Bytes of the arena."""
        return sum(each.bytes for each in self.held if each.kind == ARENA_OF)

    def at(self, number: int) -> list[Held]:
        """Memory that is held while op `number` runs."""
        return [each for each in self.held if each.first <= number <= each.last]

    def peak(self, apart: int = 0, *, with_arena: bool = True) -> tuple[int, int]:
        """The most bytes that are held at one time, and the op that then runs. `apart`: bytes that are held beside it all the time;
        `with_arena`: whether the arena is not among these."""
        changes = [0] * (self.end + 2)
        for each in self.held:
            if with_arena or each.kind != ARENA_OF:
                changes[each.first] += each.bytes
                changes[each.last + 1] -= each.bytes
        live, best = apart, (-1, 0)
        for number, change in enumerate(changes[: self.end + 1]):
            live += change
            best = max(best, (live, -number))
        return best[0], -best[1]


def live_bytes(module: ir.Module, symbols: Callable[[int], int], threads: int = 0) -> LiveBytes:
    """Of the only graph function of `module`, of the program stage. `symbols`: the number that symbol K stands for; `threads`: of a CPU, whose
    operators take memory of their own while they run; 0 on another device, of whose nothing is known."""
    with module.context:
        (graph,) = graph_functions(module)
        return _Reader(graph, ir.SymbolTable(module.operation), symbols, threads).read()


class _Reader:
    def __init__(self, graph: ir.Operation, table: ir.SymbolTable, symbols: Callable[[int], int], threads: int):
        self.graph, self.table, self.symbols, self.threads = graph, table, symbols, threads
        self.ops = [op.operation for op in graph.regions[0].blocks[0].operations]
        self.sizes = Sizes(graph, table)
        self.end = len(self.ops) - 1
        self.attributes = argument_attributes(graph)
        self.returned: dict[ir.Value, list[int]] = {}  # the numbers of the results that lie in the memory of each
        for number, value in enumerate(self.ops[-1].operands):
            self.returned.setdefault(root_of(value), []).append(number)

    def read(self) -> LiveBytes:
        # A user's operator may hold what it returns, which no program counts on; its memory of its own is not the step's.
        buffers = buffers_of(self.ops, self.table, owners=("",))
        buffers = self._waited(buffer for buffer in buffers if not is_on_host(buffer.value, self.table))
        over = {number: buffer for buffer in buffers if (number := self._given_to(buffer)) is not None}
        held = [*self._arguments(over), *map(self._held, (each for each in buffers if self._given_to(each) is None))]
        return LiveBytes((*held, *self._workspaces()), self.end)

    def _waited(self, buffers: Iterable[Buffer]) -> list[Buffer]:
        """`buffers`, where what is begun and what has been waited for are one."""
        found: dict[ir.Value, Buffer] = {}
        for buffer in buffers:
            op = buffer.value.owner.operation
            if callee(op, self.table).endswith(WAIT) and op.operands[0] in found:
                buffer.first = found.pop(op.operands[0]).first
            found[buffer.value] = buffer
        return list(found.values())

    def _callee(self, call: ir.Operation) -> ir.Operation:
        return self.table[call.attributes["callee"].value].operation

    def _is_extern(self, call: ir.Operation) -> bool:
        return is_extern(self._callee(call))

    def _workspaces(self) -> Iterator[Held]:
        for number, op in enumerate(self.ops if self.threads else ()):
            if op.name == "func.call" and self._is_extern(op):
                size = workspace(op, self._callee(op), self.bytes, self.sizes.of, self.threads)
                if size:
                    yield Held(size, number, number, INTERMEDIATE, source_of(op.location))

    def bytes(self, value: ir.Value) -> int:
        size = bytes_of(value.type, self.sizes.of(value))
        known = number_of(size, self.symbols)
        return assumed(size) if known is None else known

    def _held(self, buffer: Buffer) -> Held:
        op = buffer.value.owner.operation
        kind = ARENA_OF if ARENA in op.attributes else RESULT if buffer.escapes else INTERMEDIATE
        place = source_of(op.location)
        numbers = tuple(self.returned.get(buffer.value, ())) if kind == RESULT else ()
        return Held(self.bytes(buffer.value), buffer.first, min(buffer.last, self.end), kind, place, numbers)

    def _given_to(self, buffer: Buffer) -> int | None:
        """The number of the argument that dies, in whose memory `buffer` lies. Of one that the user may hold there is memory beside it."""
        if not buffer.allocated or OVER not in buffer.value.owner.operation.attributes:
            return None
        number = buffer.value.owner.operation.attributes[OVER].value
        return number if DIES in self.attributes[number] else None

    def _arguments(self, over: dict[int, Buffer]) -> Iterator[Held]:
        """The arguments that die, those that share a storage as one. `over`: results in the memory of an argument, by its number."""
        arguments = list(self.graph.regions[0].blocks[0].arguments)
        last = dict.fromkeys(arguments, -1)
        for number, op in enumerate(self.ops):
            for operand in op.operands:
                root = root_of(operand)
                if root in last:
                    last[root] = number
        tensors = [n for n, each in enumerate(arguments) if isinstance(each.type, ir.MemRefType)]
        storages: Sequence[int] = (
            self.graph.attributes[STORAGES] if STORAGES in self.graph.attributes else range(len(tensors))
        )
        groups: dict[int, list[int]] = {}
        for number, storage in zip(tensors, storages):
            if DIES in self.attributes[number]:
                groups.setdefault(storage if storage >= 0 else -2 - number, []).append(number)
        for numbers in groups.values():
            made = [over[number] for number in numbers if number in over]
            ends = [self.end if each.escapes else each.last for each in made]
            size = max(self.bytes(arguments[number]) for number in numbers)
            until = max([0, *(last[arguments[number]] for number in numbers), *ends])
            yield Held(size, 0, min(until, self.end), GIVEN, None, tuple(map(tensors.index, numbers)))
