"""The pass `bufferize-kernels`: tensors become memory."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.simplification import Simplifier
from ...analysis.memory.buffers import alloc, is_alias, memref_type, root_of
from ...analysis.memory.destinations import Destination, Destinations, KernelCalls
from ...errors import UserError
from ...ir.functions import OUT, RESULTS, SHAPE, SHAPES, functions, graph_functions, is_extern, kernel_op
from ...ir.locations import source_of
from ...ir.regions import end_of, ops_in
from ...ir.shapes import constant, expr, size_map
from ...mlir import func, ir, memref
from ...remarks.attribute import keep_remarks
from ..base import VALUES, Pass
from ..graph_walk import GraphWalk


@dataclass(frozen=True)
class BufferizeKernels(Pass):
    """Takes the kernel stage; leaves the program stage, an allocation each tensor.

    Kernel functions take their destinations as trailing memref arguments and return nothing; the graph function allocates
    them (`memref.alloc`), and frees them after the last use (`memref.dealloc`) unless they are returned.
    """

    name: ClassVar[str] = "bufferize-kernels"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            graphs = graph_functions(module)
            kernels = {}
            for function in functions(module):
                if kernel_op(function) is not None:
                    kernels[function.attributes["sym_name"].value] = _bufferize_kernel(function)
                elif is_extern(function):
                    _bufferize_extern(function)
            for graph in graphs:
                _Graph(graph, table, kernels).run()


def _bufferize_kernel(function: ir.Operation) -> KernelCalls:
    block = function.regions[0].blocks[0]
    arguments = list(block.arguments)
    end = end_of(block)
    attributes = (
        list(function.attributes["arg_attrs"])
        if "arg_attrs" in function.attributes
        else [ir.DictAttr.get({})] * len(arguments)
    )
    shapes = function.attributes[SHAPES] if SHAPES in function.attributes else None
    destinations = []
    for number, value in enumerate(list(end.operands)):
        make = value.owner.operation
        type_ = memref_type(value.type)
        sizes, copied, _ = make.attributes["operandSegmentSizes"]
        init = ir.BlockArgument(make.operands[sizes]).arg_number if copied else None
        shape = shapes[number] if shapes is not None else ir.AffineMapAttr.get(size_map(type_.shape))
        argument = block.add_argument(type_, make.location)
        attributes.append(ir.DictAttr.get({} if type_.has_static_shape else {SHAPE: shape}))
        value.replace_all_uses_with(argument)
        make.erase()
        destinations.append(Destination(type_, list(shape.value.results), init))
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp([])
    end.erase()
    inits = {destination.init for destination in destinations}
    kept = []
    for number, argument in enumerate(arguments):
        if isinstance(argument.type, ir.RankedTensorType):
            uses = list(argument.uses)
            if not uses and number in inits:
                continue
            argument.set_type(memref_type(argument.type))
            for use in uses:
                _load(use.owner.operation)
        kept.append(number)
    for number in reversed(range(len(arguments))):
        if number not in kept:
            block.erase_argument(number)
            del attributes[number]
    for argument in block.arguments:
        for use in list(argument.uses):
            if use.owner.operation.name == "tensor.extract":
                _load(use.owner.operation)
    types = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    if shapes is not None:
        del function.attributes[SHAPES]
    return KernelCalls(function, kept, destinations)


def _load(op: ir.Operation) -> None:
    """Replaces a `tensor.extract` by a `memref.load`."""
    if op.name != "tensor.extract":
        raise UserError(
            f"'{op.name}' reads a tensor in a kernel", location=source_of(op.location), hint="only tensor.extract does"
        )
    source, *indices = op.operands
    with ir.InsertionPoint(op), op.location:
        op.results[0].replace_all_uses_with(memref.load(source, indices))
    op.erase()


def _bufferize_extern(function: ir.Operation) -> None:
    type_ = function.attributes["function_type"].value
    inputs, results = [memref_type(t) for t in type_.inputs], [memref_type(t) for t in type_.results]
    if OUT in function.attributes:
        inputs, results = inputs + results, []
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def _sizes(callee: ir.Operation, number: int) -> list[ir.AffineExpr]:
    """The sizes of a result of an ATen function with destinations, which has its memref type by now."""
    if SHAPES in callee.attributes:
        return list(callee.attributes[SHAPES][number].value.results)
    inputs = callee.attributes["function_type"].value.inputs
    count = len(callee.attributes[RESULTS])
    return [expr(size) for size in inputs[len(inputs) - count + number].shape]


def _refuse_reader(op: ir.Operation) -> None:
    """Refuses an op of a graph function that would be left with a buffer in a tensor's place."""
    reads = any(isinstance(v.type, ir.MemRefType | ir.RankedTensorType) for o in ops_in(op) for v in o.operands)
    if op.name != "bascule.view" and reads:
        raise UserError(
            f"'{op.name}' takes a tensor; at the kernel stage only calls, views and copies do",
            location=source_of(op.location),
        )


def _retype(op: ir.Operation) -> None:
    """Makes an op's tensor results memrefs."""
    for result in op.results:
        if isinstance(result.type, ir.RankedTensorType):
            if op.name not in ("bascule.view", "func.call"):
                where = source_of(op.location)
                raise UserError(
                    f"'{op.name}' makes a tensor; at the kernel stage only calls and views do",
                    location=where,
                    hint="in a graph function tensors come from bascule.compute, scan, scatter, view and calls of ATen functions",
                )
            result.set_type(memref_type(result.type))


class _Graph(GraphWalk):
    """A graph function on its way into memory."""

    def __init__(self, graph: ir.Operation, table: ir.SymbolTable, kernels: dict[str, KernelCalls]):
        super().__init__(graph)
        self.table, self.kernels = table, kernels
        self.memory: dict[ir.Value, ir.Value] = {}  # result of a call -> its memref
        self.dead: list[ir.Operation] = []  # erased at the end: values are told apart by their address

    def run(self) -> None:
        self._check_views()
        destinations = Destinations(self.ops, self.table, self.kernels)
        self.given = destinations.given
        for argument in self.block.arguments:
            if isinstance(argument.type, ir.RankedTensorType):
                argument.set_type(memref_type(argument.type))
        for number, op in enumerate(self.ops[:-1]):
            with ir.InsertionPoint(op), op.location:
                if op.name == "func.call":
                    self._call(op)
                elif op.name == "bascule.copy_into":
                    if number not in destinations.done:
                        memref.CopyOp(*op.operands)
                    self.dead.append(op)
                else:
                    _retype(op)
                    _refuse_reader(op)
        types = [argument.type for argument in self.block.arguments], [value.type for value in self.ops[-1].operands]
        self.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        for op in reversed(self.dead):
            op.erase()
        self._free()

    def _check_views(self) -> None:
        """Refuses a view that is no alias: in memory there is nothing where its type tells."""
        simplifier = Simplifier()
        for op in self.ops:
            if op.name != "bascule.view":
                continue
            sizes = list(op.attributes["shape"].value.results)
            told = op.operands[0].type, op.attributes["map"].value, op.results[0].type
            if all(constant(size) != 0 for size in sizes) and not is_alias(*told, sizes, simplifier):
                raise UserError(
                    f"'{op.name}' has its elements elsewhere than its type tells",
                    location=source_of(op.location),
                    hint="fold-views makes such a view a compute",
                )

    def _call(self, op: ir.Operation) -> None:
        name, operands = op.attributes["callee"].value, list(op.operands)
        callee = self.table[name].operation
        if name in self.kernels:
            kernel = self.kernels[name]
            made = [(destination.type, destination.sizes) for destination in kernel.destinations]
            inits = [None if d.init is None else operands[d.init] for d in kernel.destinations]
            operands = [operands[i] for i in kernel.kept]
        elif OUT in callee.attributes:
            made = [(memref_type(result.type), _sizes(callee, i)) for i, result in enumerate(op.results)]
            inits = [None] * len(made)
        else:
            _retype(op)
            return
        outs = []
        for result, (type_, sizes), init in zip(op.results, made, inits):
            given = self.given.get(result)
            out = alloc(type_, sizes, self.symbols) if given is None else self.memory.get(given, given)
            if init is not None and init != out:
                memref.CopyOp(init, out)
            self.memory[result] = out
            outs.append(out)
        call = func.CallOp([], name, [*operands, *outs]).operation
        keep_remarks(call, [op])
        for result, out in zip(list(op.results), outs):
            result.replace_all_uses_with(out)
        self.dead.append(op)

    def _free(self) -> None:
        """A `memref.dealloc` after the last use of what is not returned."""
        ops = [op.operation for op in self.block.operations]
        kept = {root_of(value) for value in ops[-1].operands}
        last: dict[ir.Value, ir.Operation] = {}
        for op in ops:
            for operand in op.operands:
                if isinstance(operand.type, ir.MemRefType):
                    last[root_of(operand)] = op
            for result in op.results:
                if isinstance(result.type, ir.MemRefType) and root_of(result) == result:
                    last[result] = op
        for value, op in last.items():
            if value not in kept and not isinstance(value.owner, ir.Block):
                with ir.InsertionPoint.after(op), op.location:
                    memref.DeallocOp(value)
