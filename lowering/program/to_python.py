"""The program stage as one Python module a graph, which `runtime.load` makes callable."""

import re
from itertools import count
from keyword import iskeyword

from bascule.dialect.analysis.buffers import Sizes, root_of
from bascule.dialect.errors import UserError
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.functions import RESULTS, functions, graph_functions, is_extern, kernel_op
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.scalar_types import scalar_type_of
from bascule.dialect.mlir import ir

from .aten_calls import AtenFunction, number_text
from .expressions import python_of
from .places import ARENA, MEMORY, Places
from .signature import Signature
from .source import Source

# Names that a generated module uses itself.
RESERVED = [
    "args",
    "call",
    "constants",
    "empty",
    "give_arena",
    "kernel",
    "laid_out",
    "take_arena",
    "threads",
    "torch",
    "view",
]


def to_python(module: ir.Module) -> str:
    """The source of the module's only graph function at the program stage.

    It expects two names when it is run: `kernel(name, arguments)`, which gives the compiled kernel, and `constants`, the tensors
    of the graph's constants. It defines `call(args)`, with the boxed calling convention, and `LOCATIONS`, line -> the user's line.
    Raises `UserError` for IR of another stage.
    """
    with module.context:
        graphs = graph_functions(module)
        if len(graphs) != 1:
            raise UserError(f"a program has one graph function, this module has {len(graphs)}")
        return _Program(module, graphs[0]).write()


def name_of(function: ir.Operation) -> str:
    return function.attributes["sym_name"].value


class _Program:
    def __init__(self, module: ir.Module, graph: ir.Operation):
        self.module, self.graph = module, graph
        self.block = graph.regions[0].blocks[0]
        self.table = ir.SymbolTable(module.operation)
        self.signature = Signature(graph)
        self.symbols = self.signature.symbols
        self.source = Source()
        self.places = Places(self.source, Sizes(graph, self.table), self.symbols)
        self.names: dict[str, str] = {}  # function -> what it is bound to
        self.externs: dict[str, AtenFunction] = {}
        self.taken = set(RESERVED)
        self.buffers = 0
        self.commented: str | None = None

    def write(self) -> str:
        self._header()
        self._bind()
        line = self.source.line
        line()
        line()
        line("def call(args):")
        line("    threads = thread_count()")
        self.signature.unpack(self.source, self.places)
        ops = [op.operation for op in self.block.operations]
        last_uses = self._last_uses_of_inputs(ops)
        if -1 in last_uses:
            self._delete([self.places.tensors[value] for value in last_uses[-1]])
        for number, op in enumerate(ops[:-1]):
            self._comment(op)
            self._op(op)
            if number in last_uses:
                self._delete([name for value in last_uses[number] for name in self._names_of(value)])
        self._return(ops[-1])
        line()
        line()
        line("call._boxed_call = True")
        line(f"LOCATIONS = {self.source.locations!r}")
        return self.source.text()

    def _header(self) -> None:
        line = self.source.line
        kernels = [f for f in functions(self.module) if kernel_op(f) is not None]
        externs = [f for f in functions(self.module) if is_extern(f)]
        line(f'"""{name_of(self.graph)}: {len(kernels)} kernels, {len(externs)} ATen functions.')
        line()
        if MEMORY in self.graph.attributes:
            memory = {named.name: named.attr for named in self.graph.attributes[MEMORY]}
            line(
                f"Intermediates: {self._bytes(memory['asked'])} bytes asked for, an arena of {self._bytes(memory['arena'])};"
            )
            line(f"the most that is live at one time: {self._bytes(memory['live'])}.")
            line()
        for function in kernels:
            operators = ", ".join(dict.fromkeys(operators_of(function.location)))
            line(f"    {name_of(function)}: {operators}" if operators else f"    {name_of(function)}")
        line('"""')
        line()
        line("import torch")
        line("from bascule.runtime.arenas import give_arena, take_arena")
        line("from bascule.runtime.tensors import empty, laid_out, view")
        line("from bascule.runtime.threads import thread_count")

    def _bytes(self, number: ir.Attribute) -> str:
        return (
            self.places.text(number.value.results[0]) if isinstance(number, ir.AffineMapAttr) else f"{number.value:,}"
        )

    def _bind(self) -> None:
        """Binds kernels and operators to names of the module, once each."""
        line = self.source.line
        line()
        bound: dict[str, str] = {}  # operator -> name
        for function in functions(self.module):
            name = name_of(function)
            if kernel_op(function) is not None:
                self.names[name] = self._unique(name)
                line(f'{self.names[name]} = kernel("{name}", {len(function.regions[0].blocks[0].arguments) + 1})')
            elif is_extern(function):
                extern = self.externs[name] = AtenFunction(function)
                if extern.operator not in bound:
                    bound[extern.operator] = self._unique(extern.operator.removesuffix(".default").split(".", 1)[1])
                    line(f"{bound[extern.operator]} = {extern.path}")
                self.names[name] = bound[extern.operator]

    def _unique(self, wish: str) -> str:
        """A name of the module like `wish` that nothing else has."""
        base = name = re.sub(r"\W", "_", wish)
        for number in count(1):
            if name not in self.taken and not iskeyword(name):
                break
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def _comment(self, op: ir.Operation) -> None:
        if op.name in ("func.call", "memref.copy", "memref.alloc") and ARENA not in op.attributes:
            operators, where = ", ".join(dict.fromkeys(operators_of(op.location))), source_of(op.location)
            text = f"{operators}  {where}" if operators and where else operators or where
            if text and text != self.commented:
                self.source.line(f"    # {text}")
            self.commented = text

    def _op(self, op: ir.Operation) -> None:
        line, places = self.source.line, self.places
        match op.name:
            case "memref.alloc" if ARENA in op.attributes:
                line(f"    arena = take_arena({python_of(places.sizes.of(op.results[0])[0], self.symbols)})")
                places.own(op.results[0], "arena")
            case "memref.alloc":
                dtype = scalar_type_of(op.results[0].type.element_type)
                name = self._own(op.results[0])
                line(f"    {name} = empty({places.layout(op.results[0])}, torch.{dtype})")
            case "memref.dealloc":
                self._delete(self._names_of(op.operands[0]))
            case "memref.view" | "memref.reinterpret_cast" | "bascule.view":
                places.alias(op)
            case "memref.copy":
                source, dest = (places.tensor(operand) for operand in op.operands)
                line(f"    {dest}.copy_({source})", source_of(op.location))
            case "func.call":
                self._call(op)
            case "affine.apply" | "arith.constant":
                pass  # read where they are used
            case _:
                raise UserError(f"'{op.name}' is not an op of the program stage", location=source_of(op.location))

    def _call(self, op: ir.Operation) -> None:
        name, places = op.attributes["callee"].value, self.places
        if name not in self.externs:
            arguments = [
                python_of(places.sizes.expression(v), self.symbols)
                if isinstance(v.type, ir.IndexType)
                else places.pointer(v)
                for v in op.operands
            ]
            self.source.line(f"    {self.names[name]}({', '.join([*arguments, 'threads'])})")
            return
        extern = self.externs[name]
        tensors = [places.tensor(operand) for operand in op.operands]
        text = extern.call(self.names[name], tensors, self.symbols)
        where = source_of(op.location)
        results = list(op.results)
        if not results:
            self.source.line(f"    {text}", where)
            return
        positions = list(self.table[name].operation.attributes[RESULTS])
        if not extern.mutates and not extern.returns_list and len(extern.schema.returns) == 1:
            targets = self._own(results[0])
        else:
            owned = {position: self._own(result) for position, result in zip(positions, results)}
            targets = ", ".join(owned.get(i, "_") for i in range(max(positions) + 1)) + ", *_"
        self.source.line(f"    {targets} = {text}", where)
        for result in results:
            name = places.tensors[result]
            self.source.line(f"    {name} = laid_out({name}, {places.layout(result)})", where)

    def _own(self, value: ir.Value) -> str:
        name = f"buf{self.buffers}"
        self.buffers += 1
        self.places.own(value, name)
        return name

    def _names_of(self, value: ir.Value) -> list[str]:
        name = self.places.tensors[value]
        return [name, *self.places.derived[name]]

    def _delete(self, names: list[str]) -> None:
        lines = self.source.lines
        if lines[-1].startswith("    del "):
            lines[-1] += "".join(f", {name}" for name in names)
        else:
            self.source.line(f"    del {', '.join(names)}")

    def _last_uses_of_inputs(self, ops: list[ir.Operation]) -> dict[int, list[ir.Value]]:
        """Number of an op -> the inputs that nothing uses after it; -1 -> those that nothing uses."""
        inputs = self.signature.tensors
        last = dict.fromkeys(inputs, -1)
        for number, op in enumerate(ops):
            for operand in op.operands:
                root = root_of(operand)
                if root in last:
                    last[root] = number
        found: dict[int, list[ir.Value]] = {}
        for value, number in last.items():
            if number < len(ops) - 1:
                found.setdefault(number, []).append(value)
        return found

    def _return(self, op: ir.Operation) -> None:
        results = [self.places.tensor(value) for value in op.operands]
        outputs = results
        if "bascule.outputs" in self.graph.attributes:
            outputs = [self._output(entry, results) for entry in self.graph.attributes["bascule.outputs"]]
        if "arena" in self.places.derived:
            self.source.line("    give_arena(arena)")
        self.source.line(f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")

    def _output(self, entry: ir.Attribute, results: list[str]) -> str:
        match entry:
            case OperandAttr():
                return results[ir.IntegerAttr(entry.index).value]
            case ir.UnitAttr():
                return "None"
            case ir.AffineMapAttr():
                return python_of(entry.value.results[0], self.symbols)
        return number_text(entry.value)
