"""Rows and reductions of columns of the same tensors, as a backward has them: whatever shares a kernel, the numbers stay."""

from dataclasses import dataclass, field
from math import prod

from bascule.dialect.ir import builders, context
from bascule.dialect.ir.shapes import index_map, tensor_type
from bascule.dialect.mlir import arith, func, ir, math
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_passes import SPLITTING, common, compare_after

KINDS = ("sum", "sum", "max", "min", "argmax", "welford", "softmax")
# From the elements of two tensors over rows and columns, and of a weight of each column.
POINTWISE = (
    lambda x, y, w: arith.mulf(x, y),
    lambda x, y, w: arith.subf(arith.mulf(x, w), y),
    lambda x, y, w: arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, w), y, x),
    lambda x, y, w: math.tanh(arith.addf(x, y)),
)
ALONG = (lambda x, r: arith.mulf(x, r), lambda x, r: arith.subf(r, x), lambda x, r: arith.addf(x, math.tanh(r)))


@dataclass
class Backward:
    """A graph under construction. `values` lie over (*leading, columns); `flat` has the leading dims as one."""

    leading: list[int]
    columns: int
    values: list[ir.Value]
    flat: ir.Value
    weight: ir.Value
    results: list[ir.Value] = field(default_factory=list)

    @property
    def whole(self) -> list[int]:
        return [*self.leading, self.columns]

    def read(self, x: ir.Value, at: list[ir.Value]) -> ir.Value:
        """The element of a value, or of `flat`, at an index over `whole`."""
        if x != self.flat:
            return builders.read(x, at)
        step, place = 1, ir.AffineExpr.get_constant(0)
        for d in reversed(range(len(self.leading))):
            place, step = place + ir.AffineExpr.get_dim(d) * step, step * self.leading[d]
        return builders.read(x, [*builders.apply(index_map(len(self.leading), [place]), at[:-1], []), at[-1]])

    def unfold(self, row: ir.Value) -> list[ir.Value]:
        """The leading index of a row number: quotients and remainders."""
        places, step = [], 1
        for size in reversed(self.leading):
            quotient = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(0), step)
            places.insert(0, ir.AffineExpr.get_mod(quotient, size))
            step *= size
        return builders.apply(index_map(1, places), [row], [])

    def pointwise(self, emit, x: ir.Value, y: ir.Value) -> None:
        def body(at):
            return emit(self.read(x, at), self.read(y, at), builders.read(self.weight, at[-1:]))

        self.values.append(builders.compute(tensor_type(self.whole, x.type.element_type), self.whole, body))

    def rows(self, kind: str, emit, x: ir.Value, y: ir.Value) -> None:
        """`emit` of the elements of x and of the reduction of the row of y."""
        type_ = x.type.element_type

        def total(at):
            return builders.reduce(kind, [self.columns], type_, lambda k: self.read(y, [*at, *k]))[0]

        totals = builders.compute(tensor_type(self.leading, type_), self.leading, total)

        def body(at):
            return emit(self.read(x, at), builders.read(totals, at[:-1]))

        self.values.append(builders.compute(tensor_type(self.whole, type_), self.whole, body))

    def reduce(self, kind: str, number: int, emit, x: ir.Value, y: ir.Value, unfolds: bool) -> None:
        """Result `number` of a reduction of columns, over the leading dims or over rows of which the index is taken apart."""
        type_ = x.type.element_type

        def body(at):
            def element(k):
                place = [*(self.unfold(k[0]) if unfolds else k), *at]
                return emit(self.read(x, place), self.read(y, place), builders.read(self.weight, at))

            sizes = [prod(self.leading)] if unfolds else self.leading
            return builders.reduce(kind, sizes, type_, element)[number]

        element_type = ir.IntegerType.get_signless(64) if kind == "argmax" else type_
        self.results.append(builders.compute(tensor_type([self.columns], element_type), [self.columns], body))


@st.composite
def backwards(draw) -> str:
    """The text of a graph of some pointwise work on rows, perhaps with reductions of rows, and of reductions of columns."""
    leading = draw(st.lists(st.sampled_from((1, 2, 4, 6, 8, 12)), min_size=1, max_size=2))
    columns = draw(st.sampled_from((1, 3, 8, 20)))
    with context(), ir.Location.unknown():
        f32, module = ir.F32Type.get(), ir.Module.create()
        shapes = [[*leading, columns], [*leading, columns], [prod(leading), columns], [columns]]
        inputs = [tensor_type(shape, f32) for shape in shapes]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ir.FunctionType.get(inputs, []))
        function.operation.attributes["bascule.graph"] = ir.UnitAttr.get()
        with ir.InsertionPoint(function.add_entry_block()):
            x, y, flat, weight = function.arguments
            graph = Backward(leading, columns, [x, y, flat], flat, weight)
            for _ in range(draw(st.integers(1, 4))):
                x, y = (draw(st.sampled_from(graph.values)) for _ in range(2))
                step = draw(st.sampled_from(("pointwise", "rows", "columns", "columns")))
                if step == "pointwise":
                    graph.pointwise(draw(st.sampled_from(POINTWISE)), x, y)
                elif step == "rows":
                    graph.rows(draw(st.sampled_from(("sum", "max"))), draw(st.sampled_from(ALONG)), x, y)
                else:
                    kind = draw(st.sampled_from(KINDS))
                    number = draw(st.integers(0, builders.REDUCE_KINDS[kind] - 1))
                    graph.reduce(kind, number, draw(st.sampled_from(POINTWISE)), x, y, draw(st.booleans()))
            results = graph.results + [value for value in graph.values[3:] if draw(st.booleans())]
            results = results or graph.values[-1:]
            func.ReturnOp(results)
        types = ir.FunctionType.get(inputs, [result.type for result in results])
        function.operation.attributes["function_type"] = ir.TypeAttr.get(types)
        return str(module)


@common
@given(text=backwards())
def test_splitting_and_joining_do_not_change_the_numbers(text):
    compare_after(text, 1, [], SPLITTING[: SPLITTING.index("schedule-kernels")])


@common
@given(text=backwards())
def test_machine_code_computes_the_same(text):
    compare_after(text, 1, [], SPLITTING, compiled=True)
