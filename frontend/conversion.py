"""How `torch-to-bascule` works: the registry of rules, the arguments a rule sees, and the walk over a function.

A rule rewrites one torch op. It is a function `rule(c, *arguments)`: `c` is the `Conversion` and the arguments are those of the
operator's schema, all of them and in its order, decoded to Python: a tensor is its converted `ir.Value` (or None), numbers are
int / float / bool / complex, an integer computed from symbols is an `ir.AffineExpr`, lists are lists, None is None, a dtype (layout, memory
format) is its number (`dialect/ir/scalar_types.py`), a device is text. Where the schema has a tensor, a number may stand: eager's wrapped
number, as in `aten.add.Tensor(x, 2)`. It returns the converted result(s): a Value, or a list of them in the order of the op's results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from bascule.dialect.analysis.row_scatters import ORDERED, RowScatter
from bascule.dialect.errors import CompilerError
from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.functions import SHAPE, SHAPES, Externs, graph_functions
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import func, ir

from . import aten_calls
from .torch_ops import CONSTANTS, LIST, VTensors, full_name, has_effect, operator_name, symbolic_value, unsupported

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # "aten.add.Tensor" -> rule; filled when `rules/` is imported
FAMILIES = (
    "pointwise",
    "comparisons",
    "bits",
    "assertions",
    "division",
    "divisors",
    "activations",
    "losses",
    "conversions",
    "creation",
    "reductions",
    "moments",
    "special",
    "bessel",
    "oscillating",
    "zeta",
    "orthogonal_polynomials",
    "incomplete_gamma",
    "softmax",
    "normalizations",
    "views",
    "indexing",
    "masks",
    "scatter",
    "unpooling",
    "embedding_bags",
    "assembly",
    "padding",
    "rearrangements",
    "regions",
    "scans",
    "random",
    "inductor",
    "pooling",
    "adaptive_pooling",
    "fractional_pooling",
    "columns",
    "resampling",
    "antialiasing",
    "grid_sampling",
    "effects",
    "histogram",
    "memory",
    "numbers",
    "foreach",
    "externs",
)


class NoRule(Exception):
    """Raised by a rule for arguments it does not take: the operator then goes to ATen, and what was built is dead. Its text is the reason."""


class LeftToAten(NoRule):
    """Raised by a rule for what ATen is to do on purpose: `fallback="error"` does not refuse it."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operators named as `aten.add.Tensor` (overload `default` included in the name)."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            assert operator not in RULES, f"two rules for {operator}"
            RULES[operator] = function
        return function

    return register


@cache
def load_rules() -> dict[str, Rule]:
    """All rules; imports the families when first asked."""
    for family in FAMILIES:
        import_module(f"{__package__}.rules.{family}")
    return RULES


@dataclass(frozen=True)
class Asked:
    """What the operators are to become. `fallback`: what an operator without a rule does: a call of its function ("aten"), or an error.

    `eager_rounding`: each rounds its result as eager does. `deterministic`: no result may depend on the order in which points run.
    `eager_random`: random numbers are those that eager draws. `target`: what the kernels are for, "cpu" or "cuda".
    `index_asserts`: indices that eager refuses are to be refused where they are clamped.
    """

    fallback: str = "aten"
    eager_rounding: bool = False
    deterministic: bool = False
    eager_random: bool = False
    target: str = "cpu"
    index_asserts: bool = False


@dataclass
class Conversion:
    """What a rule works with: types of the op at hand, and the function's symbols. Ops are built at the current insertion point.

    `results` and `result_sizes` have an entry a result of the operator; None for a result that is not a tensor.
    """

    op: ir.Operation  # the torch op being rewritten
    symbols: list[ir.Value]
    externs: Externs
    asked: Asked
    results: list[ir.RankedTensorType]  # the op's result types with eager's layouts
    result_sizes: list[list[ir.AffineExpr]]
    operator: str = ""  # "aten.add.Tensor"
    shared: dict[str, Any] = field(default_factory=dict)  # what rules keep for the whole function

    @property
    def location(self) -> ir.Location:
        """The user's line, under the operator's name. It is the current location while a rule runs."""
        return self.op.location

    def element(self, number: int = 0) -> ir.Type:
        """The element type of result `number` in memory: `ui8` .. `ui64` for unsigned integers, signless for signed ones."""
        return self.results[number].element_type

    def layout(self, number: int = 0) -> ir.AffineMap:
        """Index -> element offset of result `number`, with the strides eager gives it."""
        return shapes.layout_of(self.results[number])

    def compute(self, body: Callable[[list[ir.Value]], ir.Value], number: int = 0) -> ir.Value:
        """Result `number` as a `bascule.compute` of its own type and sizes."""
        return builders.compute(self.results[number], self.result_sizes[number], body)

    def apply(self, exprs: Sequence[shapes.Size], dims: Sequence[ir.Value]) -> list[ir.Value]:
        """Index expressions over `dims` (d0, d1, ...) and the function's symbols, as values."""
        return builders.apply(shapes.index_map(len(dims), exprs), dims, self.symbols)

    def scatter(
        self,
        init: ir.Value,
        sizes: Sequence[shapes.Size],
        body: Callable[[list[ir.Value], ir.Value], object],
        type_: ir.RankedTensorType | None = None,
        *,
        any_order: bool = False,
    ) -> ir.Value:
        """`builders.scatter`. `any_order`: stores that meet at one place leave the same there in whatever order they come.

        Where they would not, and deterministic algorithms are asked for, it is marked for `segment-scatters` if it adds rows; else
        raises `LeftToAten`.
        """
        result = builders.scatter(init, sizes, body, type_)
        op = result.owner.operation
        if self.asked.deterministic and not any_order and _order_matters(op):
            if isinstance(RowScatter.of(op, 1), RowScatter):
                op.attributes[ORDERED] = ir.UnitAttr.get()
                return result
            raise LeftToAten("deterministic algorithms are asked for, and the order of its writes would vary")
        return result

    def call_aten(self, arguments: Sequence[Any], reason: str) -> list[ir.Value]:
        """The op as a call of its operator with `arguments`, decoded as the rule got them; one value a result."""
        return aten_calls.call(self.externs, self.operator, arguments, self.results, self.result_sizes, reason=reason)


def _order_matters(scatter: ir.Operation) -> bool:
    """Whether stores of a scatter that meet at one place leave something else there in another order: one replaces the other, or
    floats are added or multiplied."""
    for op in ops_in(scatter):
        if op.name == "bascule.store":
            mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
            if mode == "set" or (mode in ("add", "mul") and isinstance(op.operands[0].type, ir.FloatType)):
                return True
    return False


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
        for number, argument in enumerate(block.arguments):
            kept = {named.name: named.attr for named in given[number]} if given else {}
            layout, sizes = kept.pop("bascule.layout", None), kept.get(SHAPE)
            if isinstance(argument.type, ir.IndexType):
                type_ = argument.type
            else:
                pair = self.types.tensor(argument.type, layout, sizes and sizes.value)
                if pair is None:
                    raise unsupported(self.source, "an argument", f"of type {argument.type} is not taken")
                type_ = pair[0]
            types.append(type_)
            attributes.append(ir.DictAttr.get(kept))
        for name, attribute in self.source.attributes.items():
            if name not in ("function_type", "sym_name", "arg_attrs", "res_attrs"):
                target.attributes[name] = attribute
        target.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        body = target.regions[0].blocks.append(*types, arg_locs=[self.source.location] * len(types))
        self.values.update(zip(block.arguments, body.arguments))
        self.symbols = [argument for argument in body.arguments if isinstance(argument.type, ir.IndexType)]
        return body

    @staticmethod
    def _live(ops: list[ir.Operation]) -> list[ir.Operation]:
        """The ops that the function's results and effects need, in order."""
        end = ops[0].block.operations if ops else []
        needed = set(end[len(end) - 1].operation.operands) if ops else set()
        live = []
        for op in reversed(ops):
            if has_effect(op) or any(result in needed for result in op.results):
                needed.update(op.operands)
                live.append(op)
        return live[::-1]

    def _convert(self, op: ir.Operation) -> None:
        results = list(op.results)
        if (name := full_name(op)) in CONSTANTS:
            self.values[results[0]] = CONSTANTS[name](op)
        elif op.name == LIST:
            self.values[results[0]] = [self.values[operand] for operand in op.operands]
        elif (symbolic := symbolic_value(op)) is not None:
            self.values[results[0]] = symbolic
        else:
            self.values.update(zip(results, self._operator(op)))

    def _operator(self, op: ir.Operation) -> Sequence[Any]:
        operator = operator_name(op)
        types, sizes = self.types.results(op)
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
                    return aten_calls.fall_back(c, arguments, reason)
        if self.asked.fallback == "error":
            raise unsupported(op, operator, reason)
        return aten_calls.fall_back(c, arguments, reason)

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
            checked.append(aten_calls.relaid(value, type_, sizes))
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
