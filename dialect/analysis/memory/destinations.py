"""Which results of calls need no memory of their own: those made straight in an argument that would be overwritten by them, or
in the memory of a value that they start from and that nothing else needs. Of a graph function at the kernel stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.functions import MUTATES, OUT
from ...mlir import ir
from .buffers import memref_type, root_of
from .in_place import InPlace


@dataclass(frozen=True)
class Destination:
    """A result of a kernel function. `init`: number of the operand whose contents it starts from."""

    type: ir.MemRefType
    sizes: list[ir.AffineExpr]
    init: int | None


@dataclass(frozen=True)
class KernelCalls:
    """How calls of a kernel function change: it takes the operands `kept`, then a destination each former result."""

    function: ir.Operation
    kept: list[int]
    destinations: list[Destination]

    def reads_before_writing(self, operand: int, result: int) -> bool:
        """Whether `result` may be made in the memory of `operand`."""
        if operand not in self.kept:  # it is only what `result` starts from
            return self.destinations[result].init == operand
        return InPlace(self.function).allows(self.kept.index(operand), len(self.kept) + result)


@dataclass
class Destinations:
    """`given`: result of a call -> the value whose memory it is made in. `done`: the `copy_into` ops that this makes needless."""

    ops: Sequence[ir.Operation]
    table: ir.SymbolTable
    kernels: Mapping[str, KernelCalls]
    given: dict[ir.Value, ir.Value] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)  # numbers of ops

    def __post_init__(self) -> None:
        self.number = {}  # result -> number of the op that makes it
        self.readers: dict[ir.Value, list[int]] = {}  # by root
        self.writers: dict[ir.Value, int] = {}
        copies = []
        for number, op in enumerate(self.ops):
            self.number.update(dict.fromkeys(op.results, number))
            operands, written = list(op.operands), []
            if op.name == "bascule.view":
                continue
            if op.name == "bascule.copy_into":
                copies.append(number)
                written, operands = operands[1:], operands[:1]
            elif op.name == "func.call":
                callee = self.table[op.attributes["callee"].value].operation
                if MUTATES in callee.attributes:
                    written = [operands[i] for i in callee.attributes[MUTATES]]
            for value in operands:
                self.readers.setdefault(root_of(value), []).append(number)
            for value in written:
                self.writers[root_of(value)] = self.writers.get(root_of(value), 0) + 1
        for number in copies:
            value, dest = self.ops[number].operands
            if value not in self.given and self._may_overwrite(number, value, dest):
                self.given[value] = dest
                self.done.add(number)
        self.taken = set(self.given)  # what is made in an argument, or gave its memory to another
        for number, op in enumerate(self.ops):
            if op.name == "func.call" and op.attributes["callee"].value in self.kernels:
                self._share_inits(number, op)

    def _may_overwrite(self, number: int, value: ir.Value, dest: ir.Value) -> bool:
        """Whether the call that makes `value` may write it to `dest`, instead of the `copy_into` with this number."""
        made = self.number.get(value)
        if (
            made is None
            or not self._takes_destinations(self.ops[made])
            or not isinstance(dest.owner, ir.Block)
            or memref_type(value.type) != memref_type(dest.type)
        ):
            return False
        end = len(self.ops) - 1
        if self.writers[dest] > 1 or value in self.writers or end in self.readers[value]:
            return False  # written elsewhere too, or returned
        readers = self.readers.get(dest, [])
        if any(made < reader < number for reader in readers):
            return False
        return made not in readers or self._reads_before_writing(made, dest, value)

    def _takes_destinations(self, op: ir.Operation) -> bool:
        if op.name != "func.call":
            return False
        name = op.attributes["callee"].value
        return name in self.kernels or OUT in self.table[name].operation.attributes

    def _reads_before_writing(self, number: int, source: ir.Value, result: ir.Value) -> bool:
        """Whether call `number`, which reads `source`, may make `result` there."""
        op = self.ops[number]
        kernel = self.kernels.get(op.attributes["callee"].value)
        if kernel is None:
            return False
        operands, position = list(op.operands), ir.OpResult(result).result_number
        init = kernel.destinations[position].init
        if init is not None and operands[init] != source:
            return False  # `source` would be overwritten before the kernel runs
        places = [i for i, v in enumerate(operands) if not isinstance(v.type, ir.IndexType) and root_of(v) == source]
        return all(operands[i] == source and kernel.reads_before_writing(i, position) for i in places)

    def _share_inits(self, number: int, op: ir.Operation) -> None:
        """Results that start from a value that nothing needs after this call are made in its memory."""
        for result, destination in zip(op.results, self.kernels[op.attributes["callee"].value].destinations):
            if destination.init is None or result in self.given:
                continue
            init = op.operands[destination.init]
            fresh = not isinstance(init.owner, ir.Block) and init.owner.operation.name == "func.call"
            if (
                fresh
                and init not in self.taken
                and init not in self.writers
                and memref_type(init.type) == destination.type
                and max(self.readers[init]) == number
                and self._reads_before_writing(number, init, result)
            ):
                self.given[result] = init
                self.taken.add(init)
