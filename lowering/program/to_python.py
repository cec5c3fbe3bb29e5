"""The program stage as one Python module a graph, which `runtime.load` makes callable."""

from collections.abc import Sequence
from textwrap import wrap

from bascule.dialect.analysis.memory.arena_placement import KEPT
from bascule.dialect.analysis.memory.buffers import bytes_of, root_of, strides
from bascule.dialect.errors import UserError
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.attribute_names import ARENA, HOST_OUTPUTS, MEMORY
from bascule.dialect.ir.functions import (
    BEGINS,
    OUTPUTS,
    OVER,
    RESULTS,
    RETURNED_AS,
    STRIDES,
    functions,
    graph_functions,
    is_extern,
    kernel_op,
)
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.scalar_types import scalar_type_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from .aten_calls import IMPORTED, AtenFunction, number_text
from .buffer_places import Kept, view_function
from .checks import UNCHECKED, Checks
from .expressions import python_of
from .launches import WIDTH, Calls, Launcher, Plans, Runs
from .module_writer import ModuleWriter

REUSED = (
    1 << 20
)  # bytes from which `runtime/memory/result_block_pool.py` is asked whether a result on a CPU lies where another did


def to_python(
    module: ir.Module, plans: Plans | None = None, checks: Checks = UNCHECKED, *, keeps_results: bool = True
) -> str:
    """The source of the module's only graph function at the program stage.

    Without `plans` its kernels are C functions for the CPU, else plans launch them. It expects these names when it is run: `constants`, the
    tensors of the graph's constants, and `kernel(name, arguments)`, which gives the compiled kernel, or `plan(*launches)`, which makes a
    plan, with `ptr`, `i32`, `i64`, `size` and `slot`, of which launches consist. It defines `call(args)`, with the boxed calling convention,
    `LOCATIONS`, line -> the user's line, and with plans `DEVICE`. `keeps_results`: the memory of large results on a CPU is kept for later ones
    when they die. Raises `UserError` for IR of another stage.
    """
    with module.context:
        graphs = graph_functions(module)
        if len(graphs) != 1:
            raise UserError(f"a program has one graph function, this module has {len(graphs)}")
        return Program(module, graphs[0], plans, checks, keeps_results).write()


def name_of(function: ir.Operation) -> str:
    return function.attributes["sym_name"].value


def stored_arguments(function: ir.Operation) -> set[int]:
    """The numbers of a kernel function's arguments that it writes."""
    arguments = enumerate(function.regions[0].blocks[0].arguments)
    return {i for i, argument in arguments if any(use.owner.operation.name == "bascule.store" for use in argument.uses)}


class Program:
    """One graph function being written."""

    def __init__(
        self, module: ir.Module, graph: ir.Operation, plans: Plans | None, checks: Checks, keeps_results: bool = True
    ):
        self.module, self.graph, self.plans, self.checks = module, graph, plans, checks
        self.keeps_results = keeps_results and plans is None
        self.block = graph.regions[0].blocks[0]
        results = len(self.block.operations[len(self.block.operations) - 1].operation.operands)
        self.returned = list(graph.attributes["res_attrs"]) if "res_attrs" in graph.attributes else [{}] * results
        self.table = ir.SymbolTable(module.operation)
        self.writer = writer = ModuleWriter(graph, self.table)
        self.signature, self.symbols = writer.signature, writer.symbols
        self.source, self.places = writer.source, writer.places
        self.externs: dict[str, AtenFunction] = {}
        self.buffers = 0
        self.stores: dict[str, set[int]] = {}  # kernel -> its arguments that it writes
        self.launcher: Launcher = Calls(writer) if plans is None else Runs(writer, plans)

    def write(self) -> str:
        self._header()
        self._bind()
        line = self.source.line
        line()
        line()
        line("def call(args):")
        on_host = self.plans is None or self.plans.on_host
        self.signature.unpack(self.source, self.places, self._layout_read, None if on_host else "DEVICE")
        for text in self.checks.of_inputs(self.signature, self.places):
            line(f"    {text}")
        self.launcher.begin()
        ops = [op.operation for op in self.block.operations]
        last_uses = self._last_uses_of_inputs(ops)
        if -1 in last_uses:
            self._delete(last_uses[-1])
        for number, op in enumerate(ops[:-1]):
            self._op(op)
            if number in last_uses:
                self._delete(last_uses[number])
        self._return(ops[-1])
        if self.places.kept is not None:
            self._lay_out(self.places.kept)
        self.launcher.end()
        line()
        line()
        line("call._boxed_call = True")
        if nullable := self.signature.nullable:
            line(f"NULLABLE = {nullable!r}  # inputs that have no memory where they are zeros")
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
        if self.signature.computes:
            line("import math")
            line()
        line("import torch")
        self._imports([AtenFunction(f) for f in externs])

    def _imports(self, externs: Sequence[AtenFunction]) -> None:
        names = {*self.checks.imports(), *self.launcher.imports(), *filter(None, (x.wrapper for x in externs))}
        names |= {x.path for x in externs if x.path in IMPORTED}
        if any(OVER in op.operation.attributes for op in self.block.operations):
            names.add("over")
        names |= {view_function(told[RETURNED_AS].value) for told in self.returned if RETURNED_AS in told}
        self.source.line("from bascule.runtime.module_api import (")
        for name in sorted(names):
            self.source.line(f"    {name},")
        self.source.line(")")

    def _bytes(self, number: ir.Attribute) -> str:
        return (
            self.places.text(number.value.results[0]) if isinstance(number, ir.AffineMapAttr) else f"{number.value:,}"
        )

    def _bind(self) -> None:
        """Binds kernels and operators to names of the module, once each."""
        line = self.source.line
        line()
        device = None
        if self.plans is not None:
            line(f'DEVICE = torch.device("{self.plans.device}")')
            device = None if self.plans.on_host else "DEVICE"
        bound: dict[str, str] = {}  # operator -> name
        for function in functions(self.module):
            name = name_of(function)
            if kernel_op(function) is not None:
                self.stores[name] = stored_arguments(function)
                self.launcher.bind(function, name)
            elif is_extern(function):
                extern = self.externs[name] = AtenFunction(function, device)
                if extern.operator not in bound:
                    if extern.path in IMPORTED:  # under its name
                        bound[extern.operator] = extern.path
                    else:
                        wish = extern.operator.removesuffix(".default").split(".", 1)[1]
                        bound[extern.operator] = self.source.unique(wish)
                        line(f"{bound[extern.operator]} = {extern.path}")
                self.writer.names[name] = bound[extern.operator]

    def _op(self, op: ir.Operation) -> None:
        line, places = self.source.line, self.places
        match op.name:
            case "memref.alloc" if ARENA in op.attributes:
                size = self._size_of(op.results[0])
                self.launcher.make_room(size)
                graph = "" if self.plans is None or self.plans.on_host else f', "{self.plans.graph}"'
                taken = f"take_arena({python_of(places.sizes.of(op.results[0])[0], self.symbols)}{graph})"
                places.own(op.results[0], "arena")
                if self.plans is not None and not self.plans.on_host and size is not None and size <= KEPT:
                    line("    free = kept(stream)")
                    line(f"    layout = free.pop() if free else lay_out({taken})")
                    places.kept = Kept(len(self.source.lines))
                else:
                    line(f"    arena = {taken}")
            case "memref.alloc":
                size = self._size_of(op.results[0])
                self.launcher.make_room(size)
                if self.plans is None:
                    self.writer.comment(op)
                dtype = scalar_type_of(op.results[0].type.element_type)
                name, layout = self._own(op.results[0]), places.layout(op.results[0])
                if OVER in op.attributes:
                    argument = places.tensors[self.block.arguments[op.attributes[OVER].value]]
                    self.source.delete(
                        places.forget_views(argument)
                    )  # each is a user of the storage beside the argument
                    line(f"    {name} = over({argument}, {layout}, torch.{dtype})")
                elif self.keeps_results and (size is None or size >= REUSED):
                    width = python_of(bytes_of(op.results[0].type, places.sizes.of(op.results[0])), self.symbols)
                    line(f"    {name} = empty_kept({layout}, torch.{dtype}, {width})")
                else:
                    line(f"    {name} = empty({layout}, torch.{dtype})")
            case "memref.dealloc":
                self._free(op.operands[0])
            case "memref.view" | "memref.reinterpret_cast" | "bascule.view":
                places.alias(op)
            case "memref.copy":
                self.launcher.flush()
                self.writer.comment(op)
                source, dest = (places.tensor(operand) for operand in op.operands)
                line(f"    {dest}{self._writes(op.operands[1])}.copy_({source})", source_of(op.location))
            case "func.call" if op.attributes["callee"].value in self.stores:
                stored = [op.operands[number] for number in sorted(self.stores[op.attributes["callee"].value])]
                for value in stored:
                    self._writes(value)
                self.launcher.launch(op)
                self._check_values(op, stored)
            case "func.call":
                self.launcher.flush()
                self.writer.comment(op)
                self._call(op)
            case "affine.apply" | "arith.constant":
                pass  # read where they are used
            case _:
                raise UserError(f"'{op.name}' is not an op of the program stage", location=source_of(op.location))

    def _writes(self, value: ir.Value) -> str:
        """Notes that `value` is written. Returns what its tensor needs for an operator that writes to it: AOTAutograd counts the versions of
        arguments, those under `no_grad` aside, so a write to one is hidden as a kernel's is."""
        root = root_of(value)
        if root not in self.signature.tensors:
            return ""
        self.writer.written.add(self.places.tensors[root])
        return ".data"

    def _call(self, op: ir.Operation) -> None:
        name, places = op.attributes["callee"].value, self.places
        extern = self.externs[name]
        tensors = self._product_of(op, extern) or [places.tensor(operand) for operand in op.operands]
        if extern.writes_out:
            for number in range(-extern.outs, 0):
                tensors[number] += self._writes(op.operands[len(op.operands) + number])
        text = extern.call(self.writer.names[name], tensors, self.symbols)
        where = source_of(op.location)
        results = list(op.results)
        if not results:
            self.source.line(f"    {text}", where)
            self._check_values(op, self._made_in_place(op, extern))
            return
        positions = list(self.table[name].operation.attributes[RESULTS])
        if not extern.mutates and not extern.returns_list and len(extern.schema.returns) == 1:
            targets = self._own(results[0])
        else:
            owned = {position: self._own(result) for position, result in zip(positions, results)}
            targets = ", ".join(owned.get(i, "_") for i in range(max(positions) + 1)) + ", *_"
        self.source.line(f"    {targets} = {text}", where)
        for result in () if BEGINS in self.table[name].operation.attributes else results:
            if all(use.owner.operation.name == "memref.dealloc" for use in result.uses):
                continue  # where nothing reads a result, an operator may give None
            name = places.tensors[result]
            left_out = ", left_out=True" if extern.may_leave_out and not self._is_read(result) else ""
            self.source.line(f"    {name} = laid_out({name}, {self._layout_read(result)}{left_out})", where)
            self._check_values(op, [result])

    def _made_in_place(self, op: ir.Operation, extern: AtenFunction) -> list[ir.Value]:
        """The operands that hold what a call without results has made: destinations, or what the call waits for."""
        if extern.writes_out:
            return list(op.operands)[len(op.operands) - extern.outs :]
        begins = BEGINS in self.table[op.attributes["callee"].value].operation.attributes
        return list(op.operands)[:1] if extern.schema.returns and not begins else []

    def _check_values(self, op: ir.Operation, values: Sequence[ir.Value]) -> None:
        """Checks what `op` has just computed, if that is asked for."""
        if not self.checks.checked(values):
            return
        self.launcher.flush()
        operators, called = ", ".join(dict.fromkeys(operators_of(op.location))), op.attributes["callee"].value
        what = operators if called in self.externs and operators else ": ".join(filter(None, [called, operators]))
        for text in self.checks.of_values(what, values, self.places):
            self.source.line(f"    {text}", source_of(op.location))

    def _layout_read(self, value: ir.Value) -> str:
        """Sizes and strides of what an operator has made, as text, and the dtype where a kernel reads it."""
        dtype = f", dtype=torch.{scalar_type_of(value.type.element_type)}" if self._is_read(value) else ""
        return f"{self.places.layout(value)}{dtype}"

    def _is_read(self, value: ir.Value) -> bool:
        """Whether a kernel may read the memory of `value`, or of a view of it: what ATen and the caller are given, they look at themselves."""
        return not all(self._hands_on(use.owner.operation) for use in value.uses)

    def _hands_on(self, op: ir.Operation) -> bool:
        called = op.attributes["callee"].value if op.name == "func.call" else ""
        return op.name in ("func.return", "memref.dealloc") or called in self.externs

    def _product_of(self, op: ir.Operation, extern: AtenFunction) -> list[str] | None:
        """The tensors of `out = x @ w.t()` as `out.t() = w @ x.t()`, where `w` is an input, of which no view is needed then, and what holds
        `out` is kept between calls. cuBLAS is asked for the same either way: its matrices have columns where torch's have rows."""
        if extern.operator != "aten.mm.out" or len(op.operands) != 3 or self.places.kept is None:
            return None  # `x @ x` has one operand for both
        places = self.places
        x, weight, out = op.operands
        root = root_of(weight)
        if root not in self.signature.tensors or weight in places.tensors or places.known[out].base != "arena":
            return None
        if constant(places.known[weight].offset) != 0 or places.sizes.of(weight) != places.sizes.of(root)[::-1]:
            return None
        if strides(weight.type) != strides(root.type)[::-1]:
            return None
        return [places.tensors[root], places.transposed(x), places.transposed(out)]

    def _own(self, value: ir.Value) -> str:
        name = f"buf{self.buffers}"
        self.buffers += 1
        self.places.own(value, name)
        return name

    def _names_of(self, value: ir.Value) -> list[str]:
        name = self.places.tensors[value]
        return [name, *self.places.derived[name]]

    def _size_of(self, value: ir.Value) -> int | None:
        return constant(bytes_of(value.type, self.places.sizes.of(value)))

    def _free(self, value: ir.Value) -> None:
        """An arena that is kept between calls, and one on the host, are given back at the end."""
        if self.places.known[value].base == "arena":
            if self.places.kept is not None or self.plans is None or self.plans.on_host:
                return
            self.places.derived["arena"] += sorted(self.places.typed)
        self._delete([value])

    def _delete(self, values: Sequence[ir.Value]) -> None:
        names = [name for value in values for name in self._names_of(value)]
        known = [size for value in values if (size := self._size_of(value)) is not None]
        if self.launcher.delete(names, sum(known) if len(known) == len(values) else None):
            return
        lines = self.source.lines
        if lines[-1].startswith("    del "):
            lines[-1] += "".join(f", {name}" for name in names)
        else:
            self.source.delete(names)

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
        self.launcher.flush()
        results = self._results(op)
        outputs = results
        if OUTPUTS in self.graph.attributes:
            outputs = [self._output(entry, results) for entry in self.graph.attributes[OUTPUTS]]
        host = self.graph.attributes[HOST_OUTPUTS] if HOST_OUTPUTS in self.graph.attributes else ()
        if self.plans is not None and not self.plans.on_host:
            outputs = [f"{text}.cpu()" if number in host else text for number, text in enumerate(outputs)]
        elif "arena" in self.places.derived:
            self.source.line("    give_arena(arena)")
        if self.places.kept is not None:
            self.source.line("    free.append(layout)")
        self.source.line(f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")

    def _lay_out(self, kept: Kept) -> None:
        """Writes what is made once with an arena that is kept, and unpacks it where the arena is taken."""
        line = self.source.line
        names = wrap(f"{', '.join(['arena', *kept.made.values()])},", WIDTH)
        self.source.insert(kept.mark, ["    (", *[f"        {text}" for text in names], "    ) = layout"])
        line()
        line()
        line("def lay_out(arena):")
        for text, name in kept.made.items():
            line(f"    {name} = {text}")
        line("    return (")
        for text in names:
            line(f"        {text}")
        line("    )")
        line()
        line()
        line("kept = kept_layouts()")

    def _results(self, op: ir.Operation) -> list[str]:
        """The names of what the function returns; two results are two tensors, even where they lie in one place."""
        results: list[str] = []
        for number, (value, told) in enumerate(zip(op.operands, self.returned, strict=True)):
            steps = told[STRIDES].value if STRIDES in told else None
            if RETURNED_AS in told and (made := self.places.returned(value, told[RETURNED_AS].value, number, steps)):
                results.append(made)
                continue
            name = self.places.tensor(value)
            if name in results:
                again = f"{name}_result{len(results)}"
                self.source.line(f"    {again} = view({name}, {self.places.layout(value)}, 0)")
                name = again
            if steps is not None:
                self.places.restride(value, name, steps)
            results.append(name)
        return results

    def _output(self, entry: ir.Attribute, results: list[str]) -> str:
        match entry:
            case OperandAttr():
                return results[ir.IntegerAttr(entry.index).value]
            case ir.UnitAttr():
                return "None"
            case ir.StringAttr():
                return self.signature.names[int(entry.value.removeprefix("input "))]
            case ir.AffineMapAttr():
                return python_of(entry.value.results[0], self.symbols)
        return number_text(entry.value)
