"""The context of a rule: the op at hand, its types and sizes, and the options of the conversion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.scatters.row_scatters import ORDERED, RowScatter

from .registry import LeftToAten


@dataclass(frozen=True)
class Asked:
    """The options of a conversion. `fallback`: what an operator without a rule does: a call of its function ("aten"), or an error.

    `eager_rounding`: each rounds its result as eager does. `deterministic`: no result may depend on the order in which points run.
    `eager_random`: random numbers are those that eager draws. `target`: what the kernels are for, "cpu" or "cuda".
    `index_asserts`: indices that eager refuses are to be refused where they are clamped. `default_dtype`: what floating-point numbers
    are beside integers, an element type. `fill_uninitialized`: memory that nothing was written to has what eager fills it with where it is
    asked for deterministic algorithms.
    """

    fallback: str = "aten"
    eager_rounding: bool = False
    deterministic: bool = False
    eager_random: bool = False
    target: str = "cpu"
    index_asserts: bool = False
    default_dtype: str = "f32"
    fill_uninitialized: bool = False


@dataclass
class Conversion:
    """The context of a rule: types of the op at hand, and the function's symbols. Ops are built at the current insertion point.

    `results` and `result_sizes` have an entry a result of the operator; None for a result that is not a tensor.
    """

    op: ir.Operation  # the torch op being rewritten
    symbols: list[ir.Value]
    externs: Externs
    asked: Asked
    results: list[ir.RankedTensorType]  # the op's result types with eager's layouts
    result_sizes: list[Any]  # each list[ir.AffineExpr] or None: which are there, an operator's schema says
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


def _order_matters(scatter: ir.Operation) -> bool:
    """Whether stores of a scatter that meet at one place leave something else there in another order: one replaces the other, or
    floats are added or multiplied."""
    for op in ops_in(scatter):
        if op.name == "bascule.store":
            mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
            if mode == "set" or (mode in ("add", "mul") and isinstance(op.operands[0].type, ir.FloatType)):
                return True
    return False
