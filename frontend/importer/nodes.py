"""Import of one operator node of a graph: `torch-mlir`'s `GraphNodeImporter`, made to take every functional ATen operator.

An operator is `torch.aten.*` where the torch dialect has it in this form, and `torch.operator` otherwise: a number where the schema has a
tensor, None among the results, a list result (which becomes one result an element).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.attribute_names import FUSED
from bascule.dialect.ir.attributes import i64
from bascule.dialect.ir.functions import EFFECTS, SHAPES
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.shapes import size_map
from bascule.dialect.ir.types import STORED
from bascule.dialect.mlir import fx_importer, ir
from torch.fx import Node

from bascule.compat.operators.custom_operators import MAKE_TOKEN, SINK_TOKENS
from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload

from ..conversion.torch_stage import COMPLEX, DECOMPOSED, EXPR, INSIDE, LAYOUTS
from ..fx.fused_products import FUSED_PRODUCT
from ..fx.node_calls import STORAGE_OFFSETS, is_object
from ..fx.node_values import STORED_CAST
from ..fx.operator_effects import is_seen_outside
from ..fx.storage_places import inside, offset_in
from .auto_functionalized import Structure, import_functionalized
from .locations import Locations
from .positions import from_beginning
from .symbolic_numbers import SymNumber, is_number
from .symbols import Symbols, bounds, number_operator
from .sympy_trees import is_whole
from .tensor_types import SCALAR_TYPE_NUMBERS, TensorTypes

base = fx_importer()
with_effects = torch.ops.higher_order.with_effects
auto_functionalized = torch.ops.higher_order.auto_functionalized_v2
TAKEN = (with_effects, auto_functionalized)  # higher-order operators


@dataclass(frozen=True)
class _Callee:
    """Facts that all calls of an operator share. (PyTorch makes the objects of a schema anew each time that they are asked for.)"""

    text: str
    name: str  # of its op
    parameters: list[tuple[str, Any]]  # with their defaults
    names: list[str]  # of the parameters
    types: list[Any]  # of the parameters
    returns: bool
    returns_lists: bool
    is_seen_outside: bool

    @staticmethod
    def of(target: OpOverload) -> "_Callee":
        schema = target._schema
        parameters, returns = schema.arguments, schema.returns
        return _Callee(
            str(target),
            base._get_mlir_op_name_for_schema(schema),
            [(parameter.name, parameter.default_value) for parameter in parameters],
            [parameter.name for parameter in parameters],
            [parameter.type for parameter in parameters],
            bool(returns),
            any(isinstance(result.type, torch.ListType) for result in returns),
            is_seen_outside(target),
        )


class NodeImporter(base.GraphNodeImporter):
    """Imports the nodes of one graph into the block of its function. Placeholders are bound by the caller."""

    # constant or list of constants -> its value: each is made once a function
    constants: dict[tuple, ir.Value]
    floats: dict[sympy.Symbol, ir.Value]  # symbols that are floats, as tensors of rank 0
    callees: dict[OpOverload, _Callee]

    def begin(self, symbols: Symbols, types: TensorTypes, locations: Locations) -> None:
        """To be called before nodes are imported; the constructor's arguments are those of the base class."""
        self.symbols, self.types, self.locations = symbols, types, locations
        self.constants, self.floats, self.callees = {}, {}, {}
        self.structures: dict[Node, Structure] = {}
        self.torch_types = {
            name: ir.Type.parse(f"!torch.{name}")
            for name in ("none", "bool", "int", "float", "str", "Device", "number")
        }

    # Nodes

    def import_operators(self, nodes: Iterable[Node]) -> None:
        """The nodes that compute tensors, in order; integers computed from sizes are imported where they are used."""
        called = [n for n in nodes if n.op == "call_function" and not is_number(n.meta.get("val"))]
        self.structures.update(dict.fromkeys(filter(is_object, called)))
        self.import_nodes([n for n in called if not is_object(n)], skip_placeholders_outputs=True)

    def _import_torch_op_overload(
        self, loc: ir.Location, node: Node, concrete_target: OpOverload | None = None
    ) -> None:
        with self._at(node):
            token = node.target in TOKENS
            value = node.meta.get("val")
            self.structures[node] = None if token else self.call(node, node.target, node.args, node.kwargs, value)

    @contextmanager
    def _at(self, node: Node) -> Iterator[None]:
        """Gives the user's line to an error about `node`."""
        try:
            yield
        except UnsupportedError as error:
            operator = error.operator or str(node.target)
            where = source_of(self.locations.source(node))
            raise UnsupportedError(
                error.message, operator=operator, location=where, hint=error.hint, node=node.name
            ) from error

    def call(
        self, node: Node, target: OpOverload, given: Sequence[Any], named: Mapping[str, Any], value: Any
    ) -> Structure:
        """A call of `target`, on behalf of `node`, with FX arguments (or values); `value` is what it returns, as fake tensors."""
        callee = self.callees.get(target) or self.callees.setdefault(target, _Callee.of(target))
        loc = self.locations.of(node, callee.text)
        rest = callee.parameters[len(given) :]
        arguments = [*given, *(named.get(name, default) for name, default in rest)]
        own_places = False
        if (position := STORAGE_OFFSETS.get(target)) is not None and isinstance(arguments[0], Node):
            arguments[position] = offset_in(arguments[0], arguments[position])
            own_places = inside(arguments[0].meta["val"], *arguments[-3:])
        if arguments and isinstance(arguments[0], Node):
            arguments = from_beginning(callee.names, arguments)
        operands = [self._argument(loc, a, type_) for a, type_ in zip(arguments, callee.types)]
        leaves = [] if value is None and not callee.returns else _leaves(value)
        op = self._operator(loc, callee.name, operands, leaves, registered=not callee.returns_lists)
        if node.target is with_effects or callee.is_seen_outside:
            op.attributes[EFFECTS] = ir.UnitAttr.get()
        if callee.text in _CASTS and str(node.meta.get("original_aten", target)) not in _CASTS:
            op.attributes[DECOMPOSED] = ir.UnitAttr.get()
        if callee.text in _CASTS and node.meta.get(STORED_CAST):
            op.attributes[STORED] = ir.UnitAttr.get()
        if own_places:
            op.attributes[INSIDE] = ir.UnitAttr.get()
        if node.meta.get(FUSED_PRODUCT) and target is node.target:
            op.attributes[FUSED] = ir.UnitAttr.get()
        results = iter(op.results)
        return _map_structure(value, lambda _: next(results)) if leaves else None

    def _operator(
        self, loc: ir.Location, name: str, operands: Sequence[ir.Value], leaves: Sequence[Any], *, registered: bool
    ) -> ir.Operation:
        """The op `name` where the torch dialect takes it, else `torch.operator`."""
        types = [self._type(leaf) for leaf in leaves]
        attributes = self._attributes(leaves)
        if registered and self._c.is_registered_operation(name):
            # Outside of the block: in it, verifying an op numbers all that come before it.
            op = ir.Operation.create(name, results=types, operands=operands, attributes=attributes, loc=loc, ip=False)
            try:
                op.verify()
            except ir.MLIRError:
                op.erase()
            else:
                ir.InsertionPoint.current.insert(op)
                return op
        attributes["name"] = ir.StringAttr.get(name)
        return ir.Operation.create("torch.operator", results=types, operands=operands, attributes=attributes, loc=loc)

    def _type(self, leaf: Any) -> ir.Type:
        match leaf:
            case torch.Tensor():
                return self.types.type(leaf)
            case bool() | torch.SymBool():
                return self.torch_types["bool"]
            case int() | torch.SymInt():
                return self.torch_types["int"]
            case float() | torch.SymFloat():
                return self.torch_types["float"]
            case None:
                return self.torch_types["none"]
        raise UnsupportedError(f"a result of type {type(leaf).__name__} is not taken")

    def _attributes(self, leaves: Sequence[Any]) -> dict[str, ir.Attribute]:
        """`bascule.layouts` and `bascule.shapes` where they say something."""
        attributes, unit = {}, ir.UnitAttr.get()
        layouts = [self.types.layout(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        if any(layout is not None for layout in layouts):
            attributes[LAYOUTS] = ir.ArrayAttr.get([unit if layout is None else layout for layout in layouts])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if any(map(self.types.is_dynamic, tensors)):
            attributes[SHAPES] = ir.ArrayAttr.get(
                [self.types.shape(leaf) if isinstance(leaf, torch.Tensor) else unit for leaf in leaves]
            )
        return attributes

    def _import_getitem(self, loc: ir.Location, node: Node) -> None:
        source, index = node.args
        parts = self.structures[source]
        assert parts is not None, f"{source} has no results to take one of"
        self.structures[node] = parts[index]

    def _import_hop(self, loc: ir.Location, node: Node, hop: HigherOrderOperator) -> None:
        with self._at(node):
            if hop is with_effects:
                self.structures[node] = self._with_effects(node)
            elif hop is auto_functionalized and isinstance(node.args[0], OpOverload):
                self.structures[node] = import_functionalized(node, self.value_of, self.call)
            else:
                raise UnsupportedError(f"the higher-order operator {hop.name()} is not taken")

    def _with_effects(self, node: Node) -> Structure:
        """`with_effects(token, operator, *arguments)`: the operator itself, since ops with effects keep their order here."""
        _, target, *given = node.args
        if isinstance(target, HigherOrderOperator):
            raise UnsupportedError(f"the higher-order operator {target.name()} is not taken")
        _, *values = node.meta["val"]
        if len(target._schema.returns) > 1:
            return [None, *self.call(node, target, given, node.kwargs, values)]
        return [None, self.call(node, target, given, node.kwargs, values[0])]

    # Arguments

    def value_of(self, node: Node) -> ir.Value:
        """The tensor that `node` stands for. Raises `UnsupportedError` for an object, given or made."""
        found = self.structures.get(node)
        if not isinstance(found, ir.Value):
            raise UnsupportedError(f"{node} is not a tensor")
        return found

    def _argument(self, loc: ir.Location, argument: Any, type_: Any) -> ir.Value:
        """An FX argument as a value; `type_` is the schema's."""
        if isinstance(argument, ir.Value):
            return argument
        if isinstance(argument, Node):
            value = argument.meta.get("val")
            if not is_number(value):
                return self.value_of(argument)
            argument = value
        if isinstance(argument, list | tuple):
            return self._list(loc, argument, type_)
        return self._constant(argument)

    def _list(self, loc: ir.Location, arguments: Sequence[Any], type_: Any) -> ir.Value:
        while isinstance(type_, torch.OptionalType):
            type_ = type_.getElementType()
        element = type_.getElementType()
        optional = isinstance(element, torch.OptionalType)
        inner = element.getElementType() if optional else element
        values = [self._argument(loc, argument, inner) for argument in arguments]
        key = ("list", str(element), *values)
        if key not in self.constants:
            name = _LIST_ELEMENTS.get(inner.kind(), "number")
            list_type = ir.Type.parse(f"!torch.list<{f'optional<{name}>' if optional else name}>")
            op = ir.Operation.create("torch.prim.ListConstruct", results=[list_type], operands=values, loc=loc)
            self.constants[key] = op.result
        return self.constants[key]

    def _constant(self, value: Any) -> ir.Value:
        """A literal, or an integer computed from sizes."""
        if isinstance(value, torch.SymInt | torch.SymBool):
            affine = self.symbols.affine(value)
            if not isinstance(affine, int):
                return self._symbolic(affine, value)
            value = affine
        if isinstance(value, torch.SymFloat):
            return self._number(value.node.expr, value)
        key = (type(value), str(value))  # by text: 0.0 and -0.0 differ, and nan equals nan
        if key not in self.constants:
            self.constants[key] = self._literal(value)
        return self.constants[key]

    def _literal(self, value: Any) -> ir.Value:
        match value:
            case None:
                return ir.Operation.create("torch.constant.none", results=[self.torch_types["none"]]).result
            case bool():
                return self._make("bool", ir.BoolAttr.get(value))
            case int():
                return self._make("int", i64(value))
            case float():
                return self._make("float", ir.FloatAttr.get_f64(value))
            case complex():
                parts = ir.DenseF64ArrayAttr.get([value.real, value.imag])
                attributes = {"name": ir.StringAttr.get(COMPLEX), "value": parts}
                type_ = self.torch_types["number"]
                return ir.Operation.create("torch.operator", results=[type_], attributes=attributes).result
            case str():
                return self._make("str", ir.StringAttr.get(value))
            case torch.device():
                return self._make("device", ir.StringAttr.get(str(value)), "Device")
            case torch.dtype() if value in SCALAR_TYPE_NUMBERS:
                return self._constant(SCALAR_TYPE_NUMBERS[value])
            case torch.layout() if value in base.TORCH_LAYOUT_TO_INT:
                return self._constant(base.TORCH_LAYOUT_TO_INT[value])
            case torch.dtype() | torch.layout():
                raise UnsupportedError(f"the argument {value} is not taken")
            case torch.memory_format():
                return self._constant(base.TORCH_MEMORY_FORMAT_TO_INT[value])
        raise UnsupportedError(f"an argument of type {type(value).__name__} is not taken")

    def _make(self, kind: str, value: ir.Attribute, type_: str | None = None) -> ir.Value:
        type_ = self.torch_types[type_ or kind]
        return ir.Operation.create(f"torch.constant.{kind}", results=[type_], attributes={"value": value}).result

    def _symbolic(self, affine: ir.AffineExpr, value: SymNumber) -> ir.Value:
        """An integer expression of the symbols as a `!torch.int` with `bascule.expr`."""
        key = ("symbolic", affine)
        if key in self.constants:
            return self.constants[key]
        attributes = {EXPR: ir.AffineMapAttr.get(size_map([affine]))}
        if isinstance(affine, ir.AffineConstantExpr):
            return self._constant(affine.value)
        if isinstance(affine, ir.AffineSymbolExpr):
            name, operands = "torch.symbolic_int", []
            symbol = self.symbols.names[affine.position]
            lower, upper = bounds(value, symbol)
            attributes["symbol_name"] = ir.StringAttr.get(symbol)
            attributes |= {"min_val": i64(lower), "max_val": i64(upper)}
        else:
            name = next(name for kind, name in _INTEGER_OPERATORS.items() if isinstance(affine, kind))
            operands = [self._symbolic(part, value) for part in (affine.lhs, affine.rhs)]
        op = ir.Operation.create(name, results=[self.torch_types["int"]], operands=operands, attributes=attributes)
        self.constants[key] = op.result
        return op.result

    def _number(self, found: sympy.Expr, value: torch.SymFloat) -> ir.Value:
        """A number computed from sizes, as a tree of `torch.operator "torch.sym.*"` over integers of the symbols and constants."""
        if found.is_number:  # of 3.0 sympy says too that it is an integer
            return self._constant(int(found) if found.is_Integer else float(found))
        if is_whole(found):
            affine = self.symbols.affine(found)
            return self._constant(affine) if isinstance(affine, int) else self._symbolic(affine, value)
        if found in self.floats:
            return self.floats[found]
        name, parts = number_operator(found)
        operands = [self._number(part, value) for part in parts]
        key = (name, *operands)
        if key not in self.constants:
            attributes = {"name": ir.StringAttr.get(f"torch.sym.{name}")}
            type_ = self.torch_types["float"]
            op = ir.Operation.create("torch.operator", results=[type_], operands=operands, attributes=attributes)
            self.constants[key] = op.result
        return self.constants[key]


_INTEGER_OPERATORS = {
    ir.AffineAddExpr: "torch.aten.add.int",
    ir.AffineMulExpr: "torch.aten.mul.int",
    ir.AffineModExpr: "torch.aten.remainder.int",
    ir.AffineFloorDivExpr: "torch.aten.floordiv.int",
    ir.AffineCeilDivExpr: "torch.prim.ceil_div.int",
}
# What the user's own casts are traced as; another operator's decomposition casts with them too. By name: FX copies an overload in metadata.
_CASTS = ("aten._to_copy.default", "prims.convert_element_type.default")
# Operators about the tokens that order effects in FX; here the order of the ops does.
TOKENS = (MAKE_TOKEN, SINK_TOKENS)
_LIST_ELEMENTS = {
    "TensorType": "vtensor",
    "IntType": "int",
    "SymIntType": "int",
    "FloatType": "float",
    "BoolType": "bool",
    "StringType": "str",
    "NumberType": "number",
}


def _leaves(value: Any) -> list[Any]:
    """The tensors, numbers and Nones of a node's `meta["val"]`, in order."""
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def _map_structure(value: Any, leaf: Any) -> Structure:
    if isinstance(value, list | tuple):
        return [_map_structure(part, leaf) for part in value]
    return leaf(value)
