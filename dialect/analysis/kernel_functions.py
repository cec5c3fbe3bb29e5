"""Making kernel functions: what a region captures, the function's signature, its destinations, and the call."""

from collections.abc import Callable, Sequence

from ..ir import builders
from ..ir.definition import build
from ..ir.functions import SHAPES
from ..ir.locations import operators_of
from ..ir.shapes import index_map, shape_of, size_map, tensor_type
from ..ir.structure import KernelOp, ScanOp, YieldOp
from ..mlir import bufferization, func, ir


class KernelFunctions:
    def __init__(self, module: ir.Module, graph: ir.Operation):
        self.module, self.graph = module, graph
        self.symbols = builders.symbols_of(graph)
        self.table = ir.SymbolTable(module.operation)

    def one(self, op: ir.Operation) -> None:
        """Turns one compute, scan or scatter into a kernel function and a call of it."""
        captured = _captures(op)
        tensors = [v for v in captured if isinstance(v.type, ir.RankedTensorType)]
        result = op.results[0]
        sizes = shape_of(result)
        index = ir.IndexType.get()
        with op.location:
            type_ = ir.FunctionType.get([index] * len(self.symbols) + [t.type for t in tensors], [result.type])
            with ir.InsertionPoint.at_block_begin(self.module.body):
                function = func.FuncOp(_name(op), type_, visibility="private")
            entry = function.add_entry_block()
            arguments = list(entry.arguments)
            inside = {**dict(zip(self.symbols, arguments)), **dict(zip(tensors, arguments[len(self.symbols) :]))}
            _shape_attributes(function, len(self.symbols), tensors, [result])
            with ir.InsertionPoint(entry):
                if op.name == "bascule.scatter":
                    out = bufferization.AllocTensorOp(result.type, [], copy=inside[op.operands[0]]).result
                else:
                    symbols = arguments[: len(self.symbols)]
                    dynamic = [s for i, s in enumerate(sizes) if result.type.is_dynamic_dim(i)]
                    out = bufferization.AllocTensorOp(
                        result.type, builders.apply(index_map(0, dynamic), [], symbols)
                    ).result
                for value in captured:
                    if value not in inside:
                        inside[value] = value.owner.operation.clone().operation.results[0]
                _BODIES[op.name](op, out)
                func.ReturnOp([out])
        for block_op in entry.operations:
            if block_op.operation.name == "bascule.kernel":
                block_op.operation.walk(lambda o: _remap(o, inside))
        self.table.insert(function)
        with ir.InsertionPoint(op), op.location:
            call = func.CallOp([result.type], function.attributes["sym_name"].value, [*self.symbols, *tensors])
        result.replace_all_uses_with(call.operation.results[0])
        op.erase()


def _remap(op, inside: dict[ir.Value, ir.Value]) -> ir.WalkResult:
    for i, operand in enumerate(op.operands):
        if operand in inside:
            op.operands[i] = inside[operand]
    return ir.WalkResult.ADVANCE


def _captures(op: ir.Operation) -> list[ir.Value]:
    """Values that the op or its region uses and that are defined outside, in order of first use."""
    outside: dict[ir.Value, None] = {}
    parent = op.block

    def visit(inner):
        for operand in inner.operands:
            owner = operand.owner
            if (owner if isinstance(owner, ir.Block) else owner.operation.block) == parent or _is_entry(owner):
                outside[operand] = None
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return list(outside)


def _is_entry(owner) -> bool:
    return isinstance(owner, ir.Block) and owner.owner.operation.name == "func.func"


def _name(op: ir.Operation) -> str:
    operators = [name.split(".")[1] if "." in name else name for name in dict.fromkeys(operators_of(op.location))]
    return "_".join(operators[:4] or ["kernel"]) + "_0"


def _shape_attributes(function, symbols: int, tensors: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
    if any(not t.type.has_static_shape for t in tensors):
        attributes: list[dict] = [{}] * symbols + [
            {} if t.type.has_static_shape else {"bascule.shape": ir.AffineMapAttr.get(size_map(shape_of(t)))}
            for t in tensors
        ]
        function.arg_attrs = [ir.DictAttr.get(a) for a in attributes]
    if any(not r.type.has_static_shape for r in results):
        function.operation.attributes[SHAPES] = ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(size_map(shape_of(r))) for r in results]
        )


def _compute_body(op: ir.Operation, out: ir.Value) -> None:
    kernel = build(KernelOp, attributes={"ranges": op.attributes["ranges"]}).operation
    block = op.regions[0].blocks[0]
    block.append_to(kernel.regions[0])
    end = block.operations[len(block.operations) - 1].operation
    value = end.operands[0]
    with ir.InsertionPoint(end), end.location:
        builders.store(value, out, list(block.arguments))
        build(YieldOp)
    end.erase()


def _scan_body(op: ir.Operation, out: ir.Value) -> None:
    """Domain: all dims but the scanned one; the scanned row is a tile, stored by a loop after it."""
    dim, sizes = op.attributes["dim"].value, list(op.attributes["ranges"].value.results)
    row = tensor_type([sizes[dim]], op.results[0].type.element_type)
    length = ir.AffineMapAttr.get(size_map([sizes[dim]]))
    kernel = build(
        KernelOp, attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes[:dim] + sizes[dim + 1 :]))}
    ).operation
    index, loc = ir.IndexType.get(), op.location
    point = ir.Block.create_at_start(kernel.regions[0], [index] * (len(sizes) - 1), [loc] * (len(sizes) - 1))
    outer = list(point.arguments)
    with ir.InsertionPoint(point):
        attributes = {
            "kind": op.attributes["kind"],
            "dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
            "ranges": length,
        }
        scan = build(ScanOp, results=[row], attributes=attributes).operation
        block = op.regions[0].blocks[0]
        block.append_to(scan.regions[0])
        position = 0
        for k in range(len(sizes)):
            if k == dim:
                position = 1
            else:
                block.arguments[position].replace_all_uses_with(outer[k - (k > dim)])
                block.erase_argument(position)

        def stored(indices):
            value = builders.read(scan.results[0], indices)
            builders.store(value, out, outer[:dim] + indices + outer[dim:])

        builders.foreach([sizes[dim]], stored)
        build(YieldOp)


def _scatter_body(op: ir.Operation, out: ir.Value) -> None:
    kernel = build(KernelOp, attributes={"ranges": op.attributes["ranges"]}).operation
    block = op.regions[0].blocks[0]
    block.append_to(kernel.regions[0])
    last = len(block.arguments) - 1
    block.arguments[last].replace_all_uses_with(out)
    block.erase_argument(last)


_BODIES: dict[str, Callable[[ir.Operation, ir.Value], None]] = {
    "bascule.compute": _compute_body,
    "bascule.scan": _scan_body,
    "bascule.scatter": _scatter_body,
}
