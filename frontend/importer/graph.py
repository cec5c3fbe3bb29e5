"""Import: an FX graph of ATen operators becomes the torch stage (docs/architecture.md).

`torch-mlir`'s importer walks the graph; the subclasses here and in `nodes.py` add what a vtensor type does not say: strides, sizes as
expressions, the user's line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.attribute_names import LAYOUT
from bascule.dialect.ir.attributes import i64
from bascule.dialect.ir.functions import (
    ANY_STRIDES,
    CHUNK_ROWS,
    CONSTANT,
    DIES,
    GIVEN,
    GRAPH,
    INPUTS,
    OUTPUTS,
    RETURNED_AS,
    RETURNED_TOO,
    SEEN,
    SHAPE,
    STORAGES,
    STRIDES,
    SYMBOL_SOURCES,
    SYMBOLS,
    TANGENT,
)
from bascule.dialect.ir.shapes import size_map
from bascule.dialect.mlir import func, ir
from bascule.dialect.remarks.attribute import add_remark
from torch.fx import GraphModule, Node

from bascule.compat.operators.schemas import HigherOrderOperator

from ..fx.graph_ends import CHUNKED, DYING, GIVEN_BYTES, NOTED, RESTRIDED, SHARED, TANGENT_OF, VISIBLE, inputs_of
from ..fx.storages import resize_last, storage, storage_of
from ..fx.views import returned_as, saved_as
from .item_checks import check_numbers_from_data
from .locations import Locations
from .nodes import NodeImporter, base
from .symbolic_numbers import symbols_in
from .symbols import Symbols
from .tensor_types import TensorTypes, refusal


@dataclass(frozen=True)
class ImportedGraph:
    """A graph at the torch stage; its function `main` is called with the graph's inputs (`bascule.inputs`), then `constants`."""

    module: ir.Module
    constants: tuple[torch.Tensor, ...]


def import_graph(gm: GraphModule, example_inputs: Sequence[Any], *, context: ir.Context) -> ImportedGraph:
    """Imports the functional ATen graph of `gm`. `example_inputs` stand for placeholders that have no `meta["val"]`.

    Raises `UnsupportedError` at the user's line for what the IR cannot say: sizes that are no affine expressions of the inputs'
    symbols, higher-order operators, sparse or quantized tensors.
    """
    check_numbers_from_data(gm.graph)
    resize_last(gm.graph)
    with context, ir.Location.unknown():
        return _GraphImporter(context).import_functional(gm, example_inputs)


class _GraphImporter(base.FxImporter):
    def __init__(self, context: ir.Context):
        super().__init__(context=context, config_check=False)
        self._cc = _ContextCache(context)

    def import_functional(self, gm: GraphModule, example_inputs: Sequence[Any]) -> ImportedGraph:
        nodes = list(gm.graph.nodes)
        placeholders = inputs_of(gm.graph)
        values = [node.meta.get("val", example) for node, example in zip(placeholders, example_inputs, strict=True)]
        attributes = {node: _attribute(gm, node) for node in nodes if node.op == "get_attr"}
        constants = {node: value for node, value in attributes.items() if isinstance(value, torch.Tensor)}
        values = [
            None if _is_out_of_reach(node) else x
            for node, x in zip(placeholders, _without_unused_numbers(values, nodes))
        ]
        symbols = Symbols(values, [node.meta.get("val") for node in nodes])
        types = TensorTypes(symbols)
        if symbols.sources:
            types.complete_symbols(node.meta.get("val") for node in nodes)
        floats = {node: value for node, value in zip(placeholders, values) if _is_float_symbol(value)}
        tensors = [(node, value) for node, value in zip(placeholders, values) if _is_tensor(value)]
        tensors += [(node, torch.empty((), dtype=torch.float64)) for node in floats]
        tensors += constants.items()
        arguments = [ir.IndexType.get()] * len(symbols.names) + [types.type(value) for _, value in tensors]
        unknown = self._cc.locations.unknown
        function = func.FuncOp("main", (arguments, []), ip=self._m_ip)
        places = [self._cc.locations.source(node) if node.meta.get(RESTRIDED) else unknown for node, _ in tensors]
        block = function.add_entry_block([unknown] * len(symbols.names) + places)
        importer = NodeImporter(self, self._c, self._cc, block)
        importer.begin(symbols, types, self._cc.locations)
        for (node, _), argument in zip(tensors, block.arguments[len(symbols.names) :]):
            importer.structures[node] = argument
        importer.floats = {value.node.expr: importer.value_of(node) for node, value in floats.items()}
        importer.import_operators(nodes)
        results = self._return(nodes[-1], importer, block)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results.types))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({})] * len(symbols.names)
            + [_argument_attributes(types, value, node, node in constants) for node, value in tensors]
        )
        strides = [types.unit_strides(value) for value in results.tensors[: results.visible]]
        if any(results.views) or any(strides):
            told = zip_longest(results.views, strides)
            function.attributes["res_attrs"] = ir.ArrayAttr.get([_result_attributes(*each) for each in told])
        function.attributes[GRAPH] = ir.UnitAttr.get()
        function.attributes[SYMBOLS] = _strings(symbols.names)
        if any(seen := symbols.seen(values)):
            function.attributes[SEEN] = ir.DenseI64ArrayAttr.get(seen)
        function.attributes[INPUTS] = _strings(_inputs(values, symbols))
        function.attributes[OUTPUTS] = ir.ArrayAttr.get(results.outputs)
        function.attributes[STORAGES] = _storages([value for _, value in tensors], results)
        if (found := symbols.attribute()) is not None:
            function.attributes[SYMBOL_SOURCES] = found
        if CHUNKED in nodes[-1].meta:
            function.attributes[CHUNK_ROWS] = i64(nodes[-1].meta[CHUNKED])
        if GIVEN_BYTES in nodes[-1].meta:
            function.attributes[GIVEN] = i64(nodes[-1].meta[GIVEN_BYTES])
        if NOTED in nodes[-1].meta:
            add_remark(function.operation, nodes[-1].meta[NOTED])
        return ImportedGraph(self.module, tuple(constants.values()))

    def _return(self, node: Node, importer: NodeImporter, block: ir.Block) -> "_Results":
        """Ends the function with the tensors among the graph's outputs; one node more than once is one result."""
        results, outputs = list[ir.Value](), list[ir.Attribute]()
        numbers: dict[Node, int] = {}
        listed = node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
        seen, visible = node.meta.get(VISIBLE, len(listed)), 0
        for position, output in enumerate(listed):
            value = output.meta.get("val") if isinstance(output, Node) else output
            if _is_handed_on(output):
                number = inputs_of(node.graph).index(output)
                outputs.append(ir.StringAttr.get(f"input {number}"))
            elif _is_tensor(value):
                if output not in numbers:
                    numbers[output] = len(results)
                    results.append(importer.value_of(output))
                    visible += position < seen
                outputs.append(OperandAttr.get(i64(numbers[output])))
            else:
                outputs.append(_scalar_output(output, value, importer.symbols))
        with ir.InsertionPoint(block):
            func.ReturnOp(results)
        known = {storage_of(node) for node in (*inputs_of(node.graph), *list(numbers)[:visible])} - {None}
        views = [returned_as(node) if number < visible else saved_as(node, known) for node, number in numbers.items()]
        tensors = [node.meta["val"] for node in numbers]
        return _Results([result.type for result in results], outputs, tensors, visible, views)


@dataclass(frozen=True)
class _Results:
    types: list[ir.Type]
    outputs: list[ir.Attribute]  # `bascule.outputs`
    tensors: list[torch.Tensor]  # a fake tensor a result
    visible: int  # of the results, the first ones: those that the user sees
    views: list[str | None]  # `bascule.returned_as` of each


class _ContextCache(base.ContextCache):
    """Locations are the user's lines, each made once."""

    def __init__(self, context: ir.Context):
        super().__init__(context)
        self.locations = Locations(context)

    def get_node_location(self, node: Node) -> ir.Location:
        return self.locations.source(node)


def _attribute(gm: GraphModule, node: Node) -> Any:
    value = gm
    for name in node.target.split("."):
        value = getattr(value, name)
    runs_alone = all(isinstance(user.target, HigherOrderOperator) for user in node.users)
    if not isinstance(value, torch.Tensor | GraphModule) and not runs_alone:
        raise UnsupportedError(f"the graph uses {node.target}, of type {type(value).__name__}")
    return value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_float_symbol(value: Any) -> bool:
    """Whether a placeholder's value is a float that is known when the graph runs: it becomes a tensor of rank 0 in f64."""
    return isinstance(value, torch.SymFloat) and value.node.expr.is_Symbol


def _is_handed_on(output: Any) -> bool:
    """Whether an output is an input that is neither a known number nor a tensor of the IR's: a size, a device mesh, a negated view."""
    if not (isinstance(output, Node) and output.op == "placeholder"):
        return False
    value = output.meta.get("val")
    return value is not None and (not isinstance(value, torch.Tensor | int | float) or _is_out_of_reach(output))


def _is_out_of_reach(placeholder: Node) -> bool:
    """Whether it is a tensor that the IR has no type for, and that no operator takes."""
    return refusal(placeholder.meta.get("val")) is not None and all(x.op == "output" for x in placeholder.users)


def _storages(arguments: Sequence[torch.Tensor], results: "_Results") -> ir.DenseI64ArrayAttr:
    """`bascule.storages`: fake tensors share a storage exactly where the graph's do. -1: of a tensor saved for the backward, which may share
    memory with others of them."""
    numbers: dict[int | None, int] = {}
    seen = [numbers.setdefault(storage(x), len(numbers)) for x in (*arguments, *results.tensors[: results.visible])]
    return ir.DenseI64ArrayAttr.get([*seen, *(numbers.get(storage(x), -1) for x in results.tensors[results.visible :])])


def _result_attributes(view: str | None, strides: ir.AffineMap | None) -> ir.DictAttr:
    told = dict[str, ir.Attribute]() if view is None else {RETURNED_AS: ir.StringAttr.get(view)}
    if strides is not None:
        told[STRIDES] = ir.AffineMapAttr.get(strides)
    return ir.DictAttr.get(told)


def _strings(texts: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(text) for text in texts])


def _without_unused_numbers(values: Sequence[Any], nodes: Sequence[Node]) -> list[Any]:
    """The placeholders' `values`, where None stands for symbolic integers that nothing uses but the caller, who may get them back. What is
    passed for such a one need not even be an integer: a nested tensor's ragged size, for example."""
    if not any(isinstance(value, torch.SymInt) for value in values):
        return list(values)
    computed = (node.meta.get("val") for node in nodes if node.op != "placeholder")
    used = symbols_in([*filter(_is_tensor, values), *computed])

    def is_unused(node: Node, value: Any) -> bool:
        if not isinstance(value, torch.SymInt) or any(user.op != "output" for user in node.users):
            return False
        return not symbols_in(value) <= used

    placeholders = (node for node in nodes if node.op == "placeholder")
    return [None if is_unused(node, value) else value for node, value in zip(placeholders, values)]


def _inputs(values: Sequence[Any], symbols: Symbols) -> list[str]:
    """`bascule.inputs`: what each placeholder is."""
    by_input = {
        source.input: number for number, source in enumerate(symbols.sources.values()) if source.kind == "value"
    }
    inputs, tensors, floats = [], count(), count()
    for number, value in enumerate(values):
        if _is_tensor(value):
            inputs.append(f"tensor {next(tensors)}")
        elif _is_float_symbol(value):
            inputs.append(f"float {next(floats)}")
        else:
            inputs.append(f"symbol {by_input[number]}" if number in by_input else "int")
    return inputs


def _argument_attributes(types: TensorTypes, value: torch.Tensor, node: Node, constant: bool) -> ir.DictAttr:
    layout = types.layout(value)
    attributes: dict[str, ir.Attribute] = {}
    if layout is not None:
        attributes[LAYOUT] = layout
    if types.is_dynamic(value):
        attributes[SHAPE] = types.shape(value)
    if constant:
        attributes[CONSTANT] = ir.StringAttr.get(node.target)
    if node.meta.get(TANGENT_OF):
        attributes[TANGENT] = ir.UnitAttr.get()
    elif node.meta.get(DYING):
        attributes[DIES] = ir.UnitAttr.get()
    if node.meta.get(SHARED):
        attributes[RETURNED_TOO] = ir.UnitAttr.get()
    if node.meta.get(RESTRIDED):
        attributes[ANY_STRIDES] = ir.UnitAttr.get()
    return ir.DictAttr.get(attributes)


def _scalar_output(output: Any, value: Any, symbols: Symbols) -> ir.Attribute:
    """An entry of `bascule.outputs` that is no tensor: `output`, a node or a constant, is worth `value`.

    Raises `UnsupportedError`, which names the node, for a condition or a number that is no integer: it is computed by itself.
    """
    match value:
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(value)
        case float():
            return ir.FloatAttr.get_f64(value)
        case int() | torch.SymInt():
            size = symbols.affine(value)
            return i64(size) if isinstance(size, int) else ir.AffineMapAttr.get(size_map([size]))
    message = f"an output of type {type(value).__name__} is not taken"
    if isinstance(output, Node):
        raise UnsupportedError(message, operator=str(output.target), node=output.name)
    raise UnsupportedError(message)
