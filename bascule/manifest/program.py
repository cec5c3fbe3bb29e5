"""The record of a program: its steps in order, what each reads and writes, and when each buffer is needed."""

from dataclasses import dataclass, field
from typing import Any

from ..dialect.ir.attribute_names import ARENA
from ..dialect.ir.functions import EXTERN, MUTATES, REASON, RESULTS, functions, graph_functions, kernel_op
from ..dialect.ir.locations import operators_of, source_of
from ..dialect.mlir import ir
from .kernels import roles_of, type_record

VIEWS = ("bascule.view", "memref.reinterpret_cast", "memref.cast")


@dataclass
class _Program:
    """A graph function on its way into a record. Buffers are numbered by what they are views of."""

    functions: dict[str, ir.Operation]
    buffers: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    roles: dict[str, list[tuple[bool, bool]]] = field(default_factory=dict)  # kernel -> of its buffers

    def visit(self, op: ir.Operation) -> None:
        if op.name == "memref.alloc":
            if ARENA not in op.attributes:
                self._add(op.results[0], "own")
        elif op.name == "memref.view":
            self._add(op.results[0], "arena", _number(op.operands[1]))
        elif op.name in VIEWS:
            self.numbers[op.results[0]] = self.numbers[op.operands[0]]
        elif op.name == "func.call":
            self._call(op)
        elif op.name == "memref.copy":
            self._step(op, "copy", "copy", [op.operands[0]], [op.operands[1]])
        elif op.name == "func.return":
            for value in op.operands:
                if value in self.numbers:
                    self.buffers[self.numbers[value]] |= {"returned": True, "last": len(self.steps)}

    def argument(self, value: ir.Value) -> None:
        if isinstance(value.type, ir.MemRefType):
            self._add(value, "argument")

    def _add(self, value: ir.Value, place: str, offset: int | str | None = None) -> None:
        self.numbers[value] = len(self.buffers)
        record = {"buffer": len(self.buffers), "place": place, "offset": offset, **type_record(value.type)}
        self.buffers.append(record | {"first": None, "last": None, "returned": False})

    def _call(self, op: ir.Operation) -> None:
        name = op.attributes["callee"].value
        function = self.functions[name]
        given = [value for value in op.operands if isinstance(value.type, ir.MemRefType)]
        if kernel_op(function) is not None:
            if name not in self.roles:
                self.roles[name] = [roles for _, roles in roles_of(function)]
            pairs = list(zip(given, self.roles[name], strict=True))
            self._step(op, "launch", name, [v for v, (r, _) in pairs if r], [v for v, (_, w) in pairs if w])
            return
        attributes = function.attributes
        made = [result for result in op.results if isinstance(result.type, ir.MemRefType)]
        outs = len(attributes[RESULTS]) - len(op.results) if EXTERN in attributes else 0
        mutated = [given[i] for i in attributes[MUTATES]] if MUTATES in attributes else []
        read, written = given[: len(given) - outs], given[len(given) - outs :]
        for result in made:
            self._add(result, "operator")
        operator = attributes[EXTERN].value if EXTERN in attributes else name
        self._step(op, "aten", operator, read, [*written, *mutated, *made])
        self.steps[-1]["reason"] = attributes[REASON].value if REASON in attributes else None

    def _step(self, op: ir.Operation, kind: str, name: str, reads: list[ir.Value], writes: list[ir.Value]) -> None:
        number = len(self.steps)
        numbers = [list(dict.fromkeys(self.numbers[v] for v in values)) for values in (reads, writes)]
        for buffer in {*numbers[0], *numbers[1]}:
            record = self.buffers[buffer]
            record["first"] = number if record["first"] is None else record["first"]
            record["last"] = number
        self.steps.append(
            {
                "step": number,
                "kind": kind,
                "name": name,
                "operators": list(dict.fromkeys(operators_of(op.location))),
                "source": source_of(op.location),
                "reads": numbers[0],
                "writes": numbers[1],
            }
        )


def program_record(module: ir.Module) -> dict[str, Any]:
    """Of the graph function of a module of the program stage. Times are numbers of steps; a buffer is needed from `first` to `last`."""
    by_name = {f.attributes["sym_name"].value: f for f in functions(module)}
    program = _Program(by_name)
    for graph in graph_functions(module):
        block = graph.regions[0].blocks[0]
        for argument in block.arguments:
            program.argument(argument)
        for view in block.operations:
            program.visit(view.operation)
    return {"steps": program.steps, "buffers": program.buffers}


def _number(value: ir.Value) -> int | str:
    """A constant, or the text of what computes it."""
    owner = value.owner
    if isinstance(owner, ir.Block) or "value" not in owner.attributes:
        return str(owner.attributes["map"]) if not isinstance(owner, ir.Block) and "map" in owner.attributes else "?"
    return owner.attributes["value"].value
