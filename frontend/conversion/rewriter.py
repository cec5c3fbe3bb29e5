"""How `torch-to-bascule` works: the walk over a function, which gives each torch op to the rule for its operator."""

from collections.abc import Sequence
from typing import Any

from bascule.dialect.errors import CompilerError, UserError
from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import shapes
from bascule.dialect.ir.attribute_names import FUSED, LAYOUT
from bascule.dialect.ir.functions import SHAPE, SHAPES, Externs, graph_functions
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.types import symbols_among
from bascule.dialect.mlir import func, ir

from ..fx.operator_effects import draws
from .context import Asked, Conversion
from .extern_calls import overload, relaid
from .fallback import fall_back
from .refusals import refusal_of
from .registry import LeftToAten, NoRule, load_rules
from .torch_stage import (
    CONSTANTS,
    LIST,
    VTensors,
    full_name,
    has_effect,
    malformed,
    operator_name,
    symbolic_value,
    unsupported,
)


def convert_module(module: ir.Module, asked: Asked) -> None:
    """Rewrites each function over torch tensors in `module`, in place. Raises `UnsupportedError` at the user's line."""
    with module.context:
        externs = Externs(module)
        for function in graph_functions(module):
            if _is_torch_stage(function):
                _Function(function, externs, asked).convert()


def _is_torch_stage(function: ir.Operation) -> bool:
    """A graph that only checks numbers has no tensor in its type."""
    if "!torch." in str(function.attributes["function_type"]):
        return True
    return any(op.operation.name.startswith("torch.") for op in function.regions[0].blocks[0].operations)


class _Function:
    """The walk over one function of the torch stage, op by op, building its successor before it."""

    def __init__(self, source: ir.Operation, externs: Externs, asked: Asked):
        self.source, self.externs, self.asked = source, externs, asked
        self.rules = load_rules()
        self.shared: dict[str, Any] = {}
        self.types = VTensors()
        self.values: dict[ir.Value, Any] = {}  # a value of the torch stage -> what rules see for it

    def convert(self) -> None:
        block = self.source.regions[0].blocks[0]
        with self.source.location:
            with ir.InsertionPoint(self.source):
                target = func.FuncOp(self.source.attributes["sym_name"].value, ([], [])).operation
            body = self._arguments(block, target)
            ops = [op.operation for op in block.operations]
            with ir.InsertionPoint(body):
                for op in self._live(ops[:-1]):
                    with op.location:
                        self._convert(op)
                with ops[-1].location:
                    self._return(ops[-1], target)
        self.source.erase()

    def _arguments(self, block: ir.Block, target: ir.Operation) -> ir.Block:
        """Gives `target` its block, of index symbols and tensors with layouts, and its argument attributes."""
        given = list(self.source.attributes["arg_attrs"]) if "arg_attrs" in self.source.attributes else []
        types, attributes = [], []
        symbols = symbols_among(argument.type for argument in block.arguments)
        for number, argument in enumerate(block.arguments):
            kept = {named.name: named.attr for named in given[number]} if given else {}
            layout, sizes = kept.pop(LAYOUT, None), kept.get(SHAPE)
            if isinstance(argument.type, ir.IndexType):
                type_ = argument.type
            else:
                wrong = self.types.complaint(argument.type, layout, sizes, symbols)
                if wrong is not None:
                    name = {"sizes": SHAPE, "layout": LAYOUT}[wrong[0]]
                    raise malformed(self.source, name, f"of argument {number} {wrong[1]}")
                pair = self.types.tensor(argument.type, layout, sizes and sizes.value)
                if pair is None:
                    raise unsupported(self.source, "an argument", f"of type {argument.type} is not taken")
                type_ = pair[0]
            types.append(type_)
            attributes.append(ir.DictAttr.get(kept))
        for name, attribute in self.source.attributes.items():
            if name not in ("function_type", "sym_name", "arg_attrs"):
                target.attributes[name] = attribute
        target.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        body = target.regions[0].blocks.append(*types, arg_locs=[argument.location for argument in block.arguments])
        self.values.update(zip(block.arguments, body.arguments))
        self.symbols = [argument for argument in body.arguments if isinstance(argument.type, ir.IndexType)]
        return body

    def _live(self, ops: list[ir.Operation]) -> list[ir.Operation]:
        """The ops that the function's results and effects need, in order."""
        end = ops[0].block.operations if ops else []
        needed = set(end[len(end) - 1].operation.operands) if ops else set()
        live = []
        for op in reversed(ops):
            if has_effect(op) or self._moves_generator(op) or any(result in needed for result in op.results):
                needed.update(op.operands)
                live.append(op)
        return live[::-1]

    def _moves_generator(self, op: ir.Operation) -> bool:
        """Whether what is drawn after `op` is another number than without it: eager draws whether its results are used or not."""
        operator = operator_name(op)
        found = overload(operator) if self.asked.eager_random and operator.count(".") == 2 else None
        return found is not None and draws(found)

    def _convert(self, op: ir.Operation) -> None:
        results = list(op.results)
        if (name := full_name(op)) in CONSTANTS:
            self.values[results[0]] = CONSTANTS[name](op)
        elif op.name == LIST:
            self.values[results[0]] = [self.values[operand] for operand in op.operands]
        elif (symbolic := symbolic_value(op, len(self.symbols))) is not None:
            self.values[results[0]] = symbolic
        else:
            values = self._operator(op)
            if FUSED in op.attributes:
                for value in filter(None, values):
                    _call_of(value).attributes[FUSED] = op.attributes[FUSED]
            self.values.update(zip(results, values))

    def _operator(self, op: ir.Operation) -> Sequence[Any]:
        operator = operator_name(op)
        if operator.count(".") != 2:
            raise unsupported(op, operator, "is no operator of PyTorch's, namespace.name.overload")
        types, sizes = self.types.results(op, len(self.symbols))
        c = Conversion(op, self.symbols, self.externs, self.asked, types, sizes, operator, self.shared)
        arguments = [self.values[operand] for operand in op.operands]
        rule_ = self.rules.get(operator)
        reason = "no rule" if operator.startswith(("aten.", "prims.")) else "no rule: a custom operator"
        if rule_ is not None:
            try:
                values = rule_(c, *arguments)
                values = values if isinstance(values, list | tuple) else [values]
                return self._checked(c, values)
            except NoRule as refusal:
                reason = str(refusal) or "no rule for these arguments"
                if isinstance(refusal, LeftToAten):
                    return fall_back(c, arguments, reason)
            except UserError:
                raise
            except Exception as error:  # a bug, unless it is the graph's
                pass_on(error)
                told = refusal_of(c, arguments)
                if told is None:
                    raise
                raise UserError(
                    f"'{operator}' does not take its operands: {told}", location=source_of(op.location)
                ) from error
        if self.asked.fallback == "error":
            raise unsupported(op, operator, reason)
        return fall_back(c, arguments, reason)

    @staticmethod
    def _checked(c: Conversion, values: Sequence[ir.Value | None]) -> list[ir.Value | None]:
        """`values` under the result types; a rule that made something else has a bug."""
        checked: list[ir.Value | None] = []
        if len(values) != len(c.results):
            raise CompilerError(f"the rule of {c.operator} made {len(values)} results of {len(c.results)}")
        for value, type_, sizes in zip(values, c.results, c.result_sizes):
            if value is None or type_ is None:
                checked.append(None)
                continue
            got = value.type
            if (got.shape, got.element_type) != (type_.shape, type_.element_type):
                where = source_of(c.location)
                raise CompilerError(f"{where}: the rule of {c.operator} made {got}, the operator gives {type_}")
            checked.append(relaid(value, type_, sizes))
        return checked

    def _return(self, op: ir.Operation, target: ir.Operation) -> None:
        values = [self.values[operand] for operand in op.operands]
        for value, operand in zip(values, op.operands):
            if not isinstance(value, ir.Value):
                raise unsupported(op, "a result", f"of type {operand.type} is not taken")
        func.ReturnOp(values)
        arguments = [argument.type for argument in target.regions[0].blocks[0].arguments]
        type_ = ir.FunctionType.get(arguments, [value.type for value in values])
        target.attributes["function_type"] = ir.TypeAttr.get(type_)
        if any(not value.type.has_static_shape for value in values):
            maps = [ir.AffineMapAttr.get(shapes.size_map(shapes.shape_of(value))) for value in values]
            target.attributes[SHAPES] = ir.ArrayAttr.get(maps)


def _call_of(value: ir.Value) -> ir.Operation:
    """The op that makes a value, or what it is a view of."""
    op = value.owner.operation
    return _call_of(op.operands[0]) if op.name == "bascule.view" else op
