"""Several kernels as one that has no ranges: a foreach, a parallel domain, for each of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..ir.attribute_names import OPERATORS
from ..ir.definition import build
from ..ir.functions import functions, kernel_op
from ..ir.loop_ops import KernelOp, YieldOp
from ..ir.regions import ops_in
from ..ir.shapes import size_map
from ..mlir import func, ir


@contextmanager
def joining(module: ir.Module) -> Iterator[tuple[ir.SymbolTable, dict[str, ir.Operation]]]:
    """The symbols and the kernel functions, by name, of a module. Those that nothing calls at the end go."""
    table = ir.SymbolTable(module.operation)
    kernels = {f.attributes["sym_name"].value: f for f in functions(module) if kernel_op(f) is not None}
    yield table, kernels
    called = {op.attributes["callee"].value for op in ops_in(module.operation) if op.name == "func.call"}
    for name, function in kernels.items():
        if name not in called and name in table:
            table.erase(function)


def joined(
    graph: ir.Operation,
    table: ir.SymbolTable,
    members: Sequence[tuple[ir.Operation, Sequence[int]]],
    type_: ir.FunctionType,
    name: str,
) -> str:
    """Makes a kernel function of `type_` before `graph`, of the bodies of kernel functions; gives its name, which is like `name`.

    `members`: the kernel functions, none of which has symbols, each with the numbers of the new function's arguments that are its own. The
    results are theirs, in order.
    """
    locations = list({str(kernel.location): kernel.location for kernel, _ in members}.values())
    with ir.InsertionPoint(graph), locations[0] if len(locations) == 1 else ir.Location.fused(locations):
        function = func.FuncOp(name, type_, visibility="private")
        _write(members, function.add_entry_block())
    made = function.operation
    operators = [o for kernel, _ in members if OPERATORS in kernel.attributes for o in kernel.attributes[OPERATORS]]
    if operators:
        made.attributes[OPERATORS] = ir.ArrayAttr.get(list(dict.fromkeys(operators)))
    table.insert(made)
    return made.attributes["sym_name"].value


def _write(members: Sequence[tuple[ir.Operation, Sequence[int]]], entry: ir.Block) -> None:
    """The bodies of `members` as parallel domains of one kernel."""
    returned: list[ir.Value] = []
    with ir.InsertionPoint(entry):
        whole = build(KernelOp, attributes={"ranges": ir.AffineMapAttr.get(size_map([]))}).operation
        inside = ir.Block.create_at_start(whole.regions[0], [], [])
        with ir.InsertionPoint(inside):
            end = build(YieldOp).operation
    for kernel, numbers in members:
        copy = kernel.clone()
        block = copy.regions[0].blocks[0]
        for argument, number in zip(block.arguments, numbers, strict=True):
            argument.replace_all_uses_with(entry.arguments[number])
        for view in list(block.operations):
            op = view.operation
            if op.name == "func.return":
                returned += list(op.operands)
                op.erase()
            elif op.name == "bascule.kernel":
                part = ir.Operation.create(
                    "bascule.foreach",
                    [],
                    [],
                    {"ranges": op.attributes["ranges"]},
                    regions=1,
                    loc=op.location,
                    ip=ir.InsertionPoint(end),
                )
                op.regions[0].blocks[0].append_to(part.regions[0])
                op.erase()
            else:
                op.move_before(whole)
        copy.erase()
    with ir.InsertionPoint(entry):
        func.ReturnOp(returned)
