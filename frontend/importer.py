"""Import: an FX graph of ATen operators becomes the torch stage (docs/architecture.md).

`torch-mlir`'s importer walks the graph; the subclasses here and in `nodes.py` add what a vtensor type does not say: strides, sizes as
expressions, the user's line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.functions import GRAPH
from bascule.dialect.ir.shapes import size_map
from bascule.dialect.mlir import func, ir
from torch.fx import GraphModule, Node

from .locations import Locations
from .nodes import NodeImporter, base
from .symbols import Symbols
from .tensor_types import TensorTypes

CONSTANT = "bascule.constant"  # on an argument: the attribute of the graph module that the tensor is


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
    with context, ir.Location.unknown():
        return _GraphImporter(context).import_functional(gm, example_inputs)


class _GraphImporter(base.FxImporter):
    def __init__(self, context: ir.Context):
        super().__init__(context=context, config_check=False)
        self._cc = _ContextCache(context)

    def import_functional(self, gm: GraphModule, example_inputs: Sequence[Any]) -> ImportedGraph:
        nodes = list(gm.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        values = [node.meta.get("val", example) for node, example in zip(placeholders, example_inputs, strict=True)]
        constants = {node: _attribute(gm, node) for node in nodes if node.op == "get_attr"}
        symbols = Symbols(values)
        types = TensorTypes(symbols)
        tensors = [
            (node, value) for node, value in (*zip(placeholders, values), *constants.items()) if _is_tensor(value)
        ]
        arguments = [ir.IndexType.get()] * len(symbols.names) + [types.type(value) for _, value in tensors]
        function = func.FuncOp("main", (arguments, []), ip=self._m_ip)
        block = function.add_entry_block()
        importer = NodeImporter(self, self._c, self._cc, block)
        importer.begin(symbols, types, self._cc.locations)
        for (node, _), argument in zip(tensors, block.arguments[len(symbols.names) :]):
            importer.structures[node] = argument
        importer.import_operators(nodes)
        results = self._return(nodes[-1], importer, block)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results.types))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({})] * len(symbols.names)
            + [_argument_attributes(types, value, node if node in constants else None) for node, value in tensors]
        )
        function.attributes[GRAPH] = ir.UnitAttr.get()
        function.attributes["bascule.symbols"] = _strings(symbols.names)
        function.attributes["bascule.inputs"] = _strings(_inputs(values, symbols))
        function.attributes["bascule.outputs"] = ir.ArrayAttr.get(results.outputs)
        if any(
            source.kind != "value" or (source.scale, source.offset) != (1, 0) for source in symbols.sources.values()
        ):
            sources = [source.attribute() for source in symbols.sources.values()]
            function.attributes["bascule.symbol_sources"] = ir.ArrayAttr.get(sources)
        return ImportedGraph(self.module, tuple(constants.values()))

    def _return(self, node: Node, importer: NodeImporter, block: ir.Block) -> "_Results":
        """Ends the function with the tensors among the graph's outputs; one output more than once is one result."""
        results, outputs = [], []
        listed = node.args[0]
        for output in listed if isinstance(listed, list | tuple) else [listed]:
            value = output.meta.get("val") if isinstance(output, Node) else output
            if _is_tensor(value):
                result = importer.value_of(output)
                if result not in results:
                    results.append(result)
                outputs.append(OperandAttr.get(_i64(results.index(result))))
            else:
                outputs.append(_scalar_output(value, importer.symbols))
        with ir.InsertionPoint(block):
            func.ReturnOp(results)
        return _Results([result.type for result in results], outputs)


@dataclass(frozen=True)
class _Results:
    types: list[ir.Type]
    outputs: list[ir.Attribute]  # `bascule.outputs`


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
    if not _is_tensor(value):
        raise UnsupportedError(f"the graph uses {node.target}, of type {type(value).__name__}")
    return value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _strings(texts: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(text) for text in texts])


def _inputs(values: Sequence[Any], symbols: Symbols) -> list[str]:
    """`bascule.inputs`: what each placeholder is."""
    by_input = {
        source.input: number for number, source in enumerate(symbols.sources.values()) if source.kind == "value"
    }
    inputs, tensors = [], 0
    for number, value in enumerate(values):
        if _is_tensor(value):
            inputs.append(f"tensor {tensors}")
            tensors += 1
        else:
            inputs.append(f"symbol {by_input[number]}" if number in by_input else "int")
    return inputs


def _argument_attributes(types: TensorTypes, value: torch.Tensor, constant: Node | None) -> ir.DictAttr:
    layout = types.layout(value)
    attributes: dict[str, ir.Attribute] = {}
    if layout is not None:
        attributes["bascule.layout"] = layout
    if types.is_dynamic(value):
        attributes["bascule.shape"] = types.shape(value)
    if constant is not None:
        attributes[CONSTANT] = ir.StringAttr.get(constant.target)
    return ir.DictAttr.get(attributes)


def _scalar_output(value: Any, symbols: Symbols) -> ir.Attribute:
    """An entry of `bascule.outputs` that is no tensor."""
    match value:
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(value)
        case float():
            return ir.FloatAttr.get_f64(value)
        case int() | torch.SymInt():
            size = symbols.affine(value)
            return _i64(size) if isinstance(size, int) else ir.AffineMapAttr.get(size_map([size]))
    raise UnsupportedError(f"an output of type {type(value).__name__} is not taken")
