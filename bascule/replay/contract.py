"""Contract of a compiled graph with its caller: its arguments and results, which of them share memory, which arguments it writes."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..dialect.analysis.memory.buffers import root_of
from ..dialect.interpreter import choose
from ..dialect.ir import functions as ir_functions
from ..dialect.ir.attribute_names import LAYOUT
from ..dialect.ir.functions import MUTATES, RETURNED_AS, STRIDES, functions, is_extern
from ..dialect.ir.memory_ops import CopyIntoOp, StoreOp
from ..dialect.ir.regions import end_of, ops_in
from ..dialect.mlir import ir

# Of the graph function, and of each argument.
ATTRIBUTES = ("INPUTS", "OUTPUTS", "SYMBOLS", "SYMBOL_SOURCES", "STORAGES", "SHAPES")
OF_ARGUMENTS = (ir_functions.SHAPE, ir_functions.CONSTANT, ir_functions.ANY_STRIDES, LAYOUT)
# op -> the number of the operand that it writes
WRITES = {CopyIntoOp.OPERATION_NAME: 1, "memref.copy": 1, StoreOp.OPERATION_NAME: 1, "torch.aten.copy_": 0}


@dataclass(frozen=True)
class Contract:
    """Each as text, by what it is called in messages: "argument 2", "result 0", "attribute bascule.inputs"."""

    types: dict[str, str]
    memory: dict[str, str]  # of results: whose it is
    written: dict[str, str]  # of arguments: whether the graph writes them

    @staticmethod
    def of(module: ir.Module) -> "Contract":
        """That of the only graph of `module`. Raises `InterpreterError` without one, and `UserError` for a signature that leaves sizes open."""
        with module.context:
            graph = choose(module, None)
            block = graph.regions[0].blocks[0]
            arguments, results = list(block.arguments), list(end_of(block).operands)
            written = {value for value in _written(module, block)}
            return Contract(
                dict(_types(graph, arguments, results)),
                dict(_memory(arguments, results)),
                {f"argument {n}": "written" if a in written else "not written" for n, a in enumerate(arguments)},
            )

    def changes(self, edited: "Contract") -> list[str]:
        """A line for each part of the contract that `edited` does not keep."""
        lines = []
        for mine, its in ((self.types, edited.types), (self.memory, edited.memory), (self.written, edited.written)):
            for what in dict.fromkeys((*mine, *its)):
                before, now = mine.get(what, "not there"), its.get(what, "not there")
                if before != now:
                    lines.append(f"{what} is {now}, and was {before}")
        return lines


def _types(graph: ir.Operation, arguments: list[ir.Value], results: list[ir.Value]) -> Iterator[tuple[str, str]]:
    attributes = graph.attributes
    each = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else [{}] * len(arguments)
    for number, (argument, kinds) in enumerate(zip(arguments, each)):
        notes = [f"{name} = {kinds[name]}" for name in OF_ARGUMENTS if name in kinds]
        yield f"argument {number}", f"{argument.type}{' ' * bool(notes)}{', '.join(notes)}"
    kinds_of_results = list(attributes["res_attrs"]) if "res_attrs" in attributes else [{}] * len(results)
    for number, (value, kinds) in enumerate(zip(results, kinds_of_results)):
        told = "".join(f" {name} = {kinds[name]}" for name in (RETURNED_AS, STRIDES) if name in kinds)
        yield f"result {number}", f"{value.type}{told}"
    for name in (getattr(ir_functions, constant) for constant in ATTRIBUTES):
        if name in attributes:
            yield f"attribute {name}", str(attributes[name])


def _memory(arguments: list[ir.Value], results: list[ir.Value]) -> Iterator[tuple[str, str]]:
    owners = {argument: f"in the memory of argument {number}" for number, argument in enumerate(arguments)}
    for number, value in enumerate(results):
        root = root_of(value)
        yield f"result {number} ", owners.get(root, "in memory of its own")
        owners.setdefault(root, f"in the memory of result {number}")


def _written(module: ir.Module, block: ir.Block) -> Iterator[ir.Value]:
    """The arguments that the ops of a graph write, itself or by what they call."""
    stores = {f.attributes["sym_name"].value: _stored(f) for f in functions(module)}
    for view in block.operations:
        op = view.operation
        if op.name in WRITES:
            yield root_of(op.operands[WRITES[op.name]])
        elif op.name == "func.call":
            yield from (root_of(op.operands[number]) for number in stores.get(op.attributes["callee"].value, ()))


def _stored(function: ir.Operation) -> set[int]:
    """The numbers of the memrefs that a function is given and writes."""
    if is_extern(function):
        inputs = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
        buffers = bool(inputs) and any(isinstance(type_, ir.MemRefType) for type_ in inputs)
        return set(function.attributes[MUTATES]) if buffers and MUTATES in function.attributes else set()
    if not len(function.regions[0].blocks):
        return set()
    numbers = {argument: number for number, argument in enumerate(function.regions[0].blocks[0].arguments)}
    written = (root_of(op.operands[WRITES[op.name]]) for op in ops_in(function) if op.name in WRITES)
    return {numbers[root] for root in written if root in numbers and isinstance(root.type, ir.MemRefType)}
