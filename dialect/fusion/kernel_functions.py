"""Kernel functions: made around a `bascule.kernel`, with the values it captures as arguments; equal ones are shared."""

from collections.abc import Sequence

from ..ir import builders
from ..ir.attribute_names import OPERATORS
from ..ir.attributes import literal
from ..ir.functions import SHAPE, SHAPES
from ..ir.locations import operators_of
from ..ir.regions import ops_in
from ..ir.shapes import index_map, shape_of, size_map, tensor_type
from ..mlir import bufferization, func, ir, tensor

_PLAIN = frozenset(
    ("view", "expand", "permute", "reshape", "clone", "unsqueeze", "squeeze", "t", "transpose", "_to_copy")
)


class KernelFunctions:
    """The kernel functions of one module, for one graph function."""

    def __init__(self, module: ir.Module, graph: ir.Operation):
        self.module, self.graph = module, graph
        self.symbols = builders.symbols_of(graph)
        self.scalars = _scalars(graph)
        self.table = ir.SymbolTable(module.operation)
        self._known: dict[str, str] = {}  # text -> name
        self._names: dict[str, int] = {}
        self._operators: dict[ir.Attribute, list[str]] = {}  # by the attribute: equal locations have other hashes

    def begin(self, location: ir.Location) -> "KernelFunction":
        return KernelFunction(self, location)

    def operators(self, location: ir.Location) -> list[str]:
        key = location.attr
        found = self._operators.get(key)
        if found is None:
            found = self._operators[key] = operators_of(location)
        return found

    def share(self, function: ir.Operation, operators: Sequence[str]) -> str:
        """The name of `function`, or of an equal one that exists: then `function` is erased."""
        text = function.get_asm(assume_verified=True, use_local_scope=True)
        name = self._known.get(text)
        if name is not None:
            function.erase()
            return name
        stem = _stem(operators)
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        function.attributes["sym_name"] = ir.StringAttr.get(f"{stem}_{count}")
        function.attributes[OPERATORS] = ir.ArrayAttr.get([ir.StringAttr.get(o) for o in operators])
        self.table.insert(function)
        name = self._known[text] = function.attributes["sym_name"].value
        return name


class KernelFunction:
    """One kernel function while it is made: `destination` for each tensor it makes, then ops at `entry`, then `finish`."""

    def __init__(self, owner: KernelFunctions, location: ir.Location):
        self.owner, self.location = owner, location
        with ir.InsertionPoint(owner.graph), location:
            self.function = func.FuncOp("kernel", ir.FunctionType.get([], []), visibility="private").operation
            index = ir.IndexType.get()
            self.entry = ir.Block.create_at_start(
                self.function.regions[0], [index] * len(owner.symbols), [location] * len(owner.symbols)
            )
        self.inside: dict[ir.Value, ir.Value] = dict(zip(owner.symbols, self.entry.arguments))
        self.arguments: list[ir.Value] = []  # tensors of the graph function that the kernel reads
        self.results: list[ir.Value] = []  # values of the graph function that the kernel makes
        self.outs: list[ir.Value] = []

    def destination(self, value: ir.Value, init: ir.Value | None = None) -> ir.Value:
        """A new destination for `value`, a result of an op of the graph function, starting from the contents of `init`."""
        with ir.InsertionPoint(self.entry), self.location:
            if init is not None:
                out = bufferization.AllocTensorOp(value.type, [], copy=self._argument(init)).result
            else:
                dynamic = [s for i, s in enumerate(shape_of(value)) if value.type.is_dynamic_dim(i)]
                symbols = list(self.entry.arguments)[: len(self.owner.symbols)]
                sizes = builders.apply(index_map(0, dynamic), [], symbols)
                out = bufferization.AllocTensorOp(value.type, sizes).result
        self.results.append(value)
        self.outs.append(out)
        return out

    def _argument(self, value: ir.Value) -> ir.Value:
        argument = self.entry.add_argument(value.type, self.location)
        self.inside[value] = argument
        self.arguments.append(value)
        return argument

    def finish(self, kernel: ir.Operation, before: ir.Operation) -> ir.Operation:
        """Closes the function over what `kernel` captures, and calls it before the op `before`; returns the call."""
        owner = self.owner
        operators: dict[str, None] = {}
        inside, scalars, graph_block = self.inside, owner.scalars, owner.graph.regions[0].blocks[0]
        with ir.InsertionPoint(before), self.location:
            _take_elements(kernel, graph_block)
        start = ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0])  # names an op that must live on

        def visit(view) -> ir.WalkResult:
            op = view.operation
            name = op.name
            for i, operand in enumerate(op.operands):
                value = inside.get(operand)
                if value is None:
                    if operand in scalars:
                        value = inside[operand] = scalars[operand].clone(start).operation.results[0]
                    elif name == "tensor.extract" and i == 0 and _is_from(operand, graph_block):
                        value = self._argument(operand)
                    else:
                        continue
                op.operands[i] = value
            operators.update(dict.fromkeys(owner.operators(op.location)))
            return ir.WalkResult.ADVANCE

        kernel.walk(visit, ir.WalkOrder.PRE_ORDER)
        with ir.InsertionPoint(self.entry), self.location:
            func.ReturnOp(self.outs)
        self._signature()
        name = owner.share(self.function, list(operators))
        operands = [*owner.symbols, *self.arguments]
        with ir.InsertionPoint(before), self.location:
            call = func.CallOp([value.type for value in self.results], name, operands).operation
        if any(not value.type.has_static_shape for value in self.results):
            call.attributes[SHAPES] = _shapes(self.results)
        for value, result in zip(self.results, call.results):
            value.replace_all_uses_with(result)
        return call

    def _signature(self) -> None:
        function, symbols = self.function, len(self.owner.symbols)
        inputs = [argument.type for argument in self.entry.arguments]
        results = [value.type for value in self.results]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
        if any(not t.type.has_static_shape for t in self.arguments):
            shapes = [ir.DictAttr.get({})] * symbols + [_shape_attribute(t) for t in self.arguments]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(shapes)
        if any(not value.type.has_static_shape for value in self.results):
            function.attributes[SHAPES] = _shapes(self.results)


def _shapes(values: Sequence[ir.Value]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(size_map(shape_of(value))) for value in values])


def _shape_attribute(value: ir.Value) -> ir.DictAttr:
    if value.type.has_static_shape:
        return ir.DictAttr.get({})
    return ir.DictAttr.get({SHAPE: ir.AffineMapAttr.get(size_map(shape_of(value)))})


def _is_from(value: ir.Value, block: ir.Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, ir.Block) else owner.operation.block) == block


def _take_elements(kernel: ir.Operation, block: ir.Block) -> None:
    """Reads of one element at a constant index, as of a seed among the seeds of a graph, become reads of a view of that element.

    The place then is not in the kernel, and kernels that differ in it only are equal. The views are built at the insertion point.
    """
    reads: list[tuple[ir.Operation, tuple[int, ...]]] = []
    for op in ops_in(kernel):
        if op.name == "tensor.extract" and _is_from(op.operands[0], block):
            place = _element(op)
            if place is not None and any(size != 1 for size in op.operands[0].type.shape):
                reads.append((op, place))
    views: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
    for op, place in reads:
        source = op.operands[0]
        element = views.get((source, place))
        if element is None:
            type_ = tensor_type([], source.type.element_type)
            element = views[source, place] = builders.view(source, index_map(0, place), [], type_)
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(tensor.extract(element, []))
        inside = dict.fromkeys(index.owner for index in list(op.operands)[1:] if not _is_from(index, block))
        op.erase()
        for constant in inside:
            if not any(True for _ in constant.results[0].uses):
                constant.erase()


def _element(op: ir.Operation) -> tuple[int, ...] | None:
    """The place that `op` reads, if it is a constant one that there is for certain: a condition around may know that there is none."""
    source, *indices = op.operands
    known = [int(number) for index in indices if (number := literal(index)) is not None]
    inside = source.type.has_static_shape and all(0 <= at < size for at, size in zip(known, source.type.shape))
    return tuple(known) if inside and len(known) == len(indices) else None


def _scalars(graph: ir.Operation) -> dict[ir.Value, ir.Operation]:
    """Constants at the top of the graph function, where canonicalization puts them: each kernel takes a copy."""
    return {
        op.operation.results[0]: op.operation
        for op in graph.regions[0].blocks[0].operations
        if op.operation.name == "arith.constant" and not isinstance(op.operation.results[0].type, ir.ShapedType)
    }


def _stem(operators: Sequence[str]) -> str:
    """The beginning of a kernel's name: its operators but for views and copies, up to 40 characters."""
    names = [operator.split(".")[1] if "." in operator else operator for operator in operators]
    chosen: list[str] = []
    for name in dict.fromkeys(name for name in names if name not in _PLAIN) or dict.fromkeys(names):
        if chosen and len("_".join([*chosen, name])) > 40:
            break
        chosen.append(name.strip("_") or name)
    return "_".join(chosen) or "kernel"
