"""Rows that some computes walk by one index and others by two: what is collapsed, and what then shares a kernel, computes the same."""

from dataclasses import dataclass, field

from bascule.dialect.ir import OperandAttr, builders, context
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.shapes import expr, index_map, tensor_type
from bascule.dialect.mlir import arith, func, ir, math
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_columns import POINTWISE
from tests.properties.test_passes import SPLITTING, common, compare_after

COLLAPSE = SPLITTING.index("collapse-domains")
SPLIT = next(number for number, stage in enumerate(SPLITTING) if stage.startswith("split-domains"))


@dataclass
class Folded:
    """A graph under construction. `values` lie over (outer, inner, columns), or over (outer * inner, columns)."""

    module: ir.Module
    outer: int
    inner: int
    columns: int
    times: ir.Value  # over (inner, columns): what reads it cannot run over one index of rows
    weight: ir.Value
    values: list[ir.Value]
    results: list[ir.Value] = field(default_factory=list)

    def sizes(self, flat: bool) -> list[int]:
        return [self.outer * self.inner] if flat else [self.outer, self.inner]

    def read(self, x: ir.Value, rows: list[ir.Value], column: ir.Value) -> ir.Value:
        """The element of a value of either form at a row given in either form."""
        flat = x.type.rank == 2
        d = [ir.AffineExpr.get_dim(i) for i in range(2)]
        if flat and len(rows) == 2:
            rows = builders.apply(index_map(2, [d[0] * self.inner + d[1]]), rows, [])
        elif not flat and len(rows) == 1:
            quotient, rest = ir.AffineExpr.get_floor_div(d[0], self.inner), ir.AffineExpr.get_mod(d[0], self.inner)
            rows = builders.apply(index_map(1, [quotient, rest]), rows, [])
        return builders.read(x, [*rows, column])

    def make(self, flat: bool, sizes: list[int], body) -> ir.Value:
        return builders.compute(tensor_type(sizes, self.weight.type.element_type), sizes, body)

    def pointwise(self, flat: bool, emit, x: ir.Value, y: ir.Value) -> None:
        def body(at):
            *rows, column = at
            return emit(self.read(x, rows, column), self.read(y, rows, column), builders.read(self.weight, [column]))

        self.values.append(self.make(flat, [*self.sizes(flat), self.columns], body))

    def timed(self, x: ir.Value) -> None:
        def body(at):
            return arith.addf(self.read(x, at[:2], at[2]), builders.read(self.times, at[1:]))

        self.values.append(self.make(False, [*self.sizes(False), self.columns], body))

    def rows(self, flat: bool, kind: str, x: ir.Value, y: ir.Value) -> None:
        type_ = self.weight.type.element_type

        def total(at):
            return builders.reduce(kind, [self.columns], type_, lambda k: self.read(y, at, k[0]))[0]

        totals = self.make(flat, self.sizes(flat), total)

        def body(at):
            *rows, column = at
            return math.tanh(arith.subf(self.read(x, rows, column), builders.read(totals, rows)))

        self.values.append(self.make(flat, [*self.sizes(flat), self.columns], body))

    def groups(self, kind: str, x: ir.Value, y: ir.Value) -> None:
        """Rows less what `inner` of them have together."""
        type_ = self.weight.type.element_type

        def total(at):
            return builders.reduce(
                kind, [self.inner, self.columns], type_, lambda k: self.read(y, [at[0], k[0]], k[1])
            )[0]

        totals = self.make(True, [self.outer], total)

        def body(at):
            row, column = at
            quotient = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(0), self.inner)
            (group,) = builders.apply(index_map(1, [quotient]), [row], [])
            return math.tanh(arith.subf(self.read(x, [row], column), builders.read(totals, [group])))

        self.values.append(self.make(True, [*self.sizes(True), self.columns], body))

    def sum_columns(self, flat: bool, x: ir.Value, y: ir.Value) -> None:
        type_ = self.weight.type.element_type

        def body(at):
            return builders.reduce(
                "sum", self.sizes(flat), type_, lambda k: arith.mulf(self.read(x, k, at[0]), self.read(y, k, at[0]))
            )[0]

        self.results.append(self.make(flat, [self.columns], body))

    def position(self, flat: bool, x: ir.Value) -> None:
        """Where the largest element of a column is: the number of a row, in whatever form it is walked."""

        def body(at):
            type_ = self.weight.type.element_type
            return builders.reduce("argmax", self.sizes(flat), type_, lambda k: self.read(x, k, at[0]))[0]

        i64 = ir.IntegerType.get_signless(64)
        self.results.append(builders.compute(tensor_type([self.columns], i64), [self.columns], body))

    def call(self, x: ir.Value) -> None:
        operand = OperandAttr.get(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
        self.values.append(Externs(self.module).call("aten.neg.default", [operand], [x], [x.type])[0])

    def see(self, x: ir.Value) -> None:
        """The value through a view, in the other form."""
        flat, d = x.type.rank == 2, [ir.AffineExpr.get_dim(i) for i in range(3)]
        if flat:
            index = [d[0] * self.inner + d[1], d[2]]
        else:
            index = [ir.AffineExpr.get_floor_div(d[0], self.inner), ir.AffineExpr.get_mod(d[0], self.inner), d[1]]
        sizes = [expr(size) for size in (*self.sizes(not flat), self.columns)]
        self.values.append(
            builders.view(x, index_map(len(sizes), index), sizes, tensor_type(sizes, x.type.element_type))
        )


STEPS = ("pointwise", "pointwise", "rows", "rows", "groups", "columns", "timed", "position", "call", "see")


@st.composite
def folded(draw) -> str:
    """The text of a graph whose values are of either form; those of two arguments have other strides sometimes."""
    outer, inner, columns = (draw(st.sampled_from(sizes)) for sizes in ((1, 2, 4), (1, 2, 3, 8), (1, 3, 8, 20)))
    with context(), ir.Location.unknown():
        f32, module = ir.F32Type.get(), ir.Module.create()
        split, flat = [outer, inner, columns], [outer * inner, columns]
        steps = draw(st.sampled_from((None, [columns, columns * outer, 1], [inner * columns * 2, columns, 1])))
        inputs = [tensor_type(split, f32, steps), tensor_type(split, f32), tensor_type(flat, f32)]
        inputs += [tensor_type(flat[1:], f32), tensor_type(split[1:], f32)]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ir.FunctionType.get(inputs, []))
        function.operation.attributes["bascule.graph"] = ir.UnitAttr.get()
        with ir.InsertionPoint(function.add_entry_block()):
            *values, weight, times = function.arguments
            graph = Folded(module, outer, inner, columns, times, weight, values)
            for _ in range(draw(st.integers(2, 6))):
                x, y = (draw(st.sampled_from(graph.values[-4:])) for _ in range(2))
                form = draw(st.booleans())
                match draw(st.sampled_from(STEPS)):
                    case "pointwise":
                        graph.pointwise(form, draw(st.sampled_from(POINTWISE)), x, y)
                    case "rows":
                        graph.rows(form, draw(st.sampled_from(("sum", "max"))), x, y)
                    case "groups":
                        graph.groups(draw(st.sampled_from(("sum", "max"))), x, x if form else y)
                    case "columns":
                        graph.sum_columns(form, x, y)
                    case "timed":
                        graph.timed(x)
                    case "position":
                        graph.position(form, x)
                    case "call" if x not in function.arguments:
                        graph.call(x)
                    case "see" if x != values[0]:
                        graph.see(x)
            made = graph.values[len(values) :]
            results = graph.results + [value for value in made if draw(st.booleans())]
            results = list(dict.fromkeys(results or graph.values[-1:]))
            func.ReturnOp(results)
        types = ir.FunctionType.get(inputs, [result.type for result in results])
        function.operation.attributes["function_type"] = ir.TypeAttr.get(types)
        return str(module)


@common
@given(text=folded())
def test_collapsing_does_not_change_the_numbers(text):
    compare_after(text, 1, SPLITTING[:COLLAPSE], [SPLITTING[COLLAPSE]])


@common
@given(text=folded())
def test_splitting_does_not_change_the_numbers(text):
    compare_after(text, 1, SPLITTING[:SPLIT], [SPLITTING[SPLIT]])


@common
@given(text=folded())
def test_sharing_kernels_does_not_change_the_numbers(text):
    compare_after(text, 1, [], SPLITTING[: SPLITTING.index("schedule-kernels")])


@common
@given(text=folded())
def test_machine_code_computes_the_same(text):
    compare_after(text, 1, [], SPLITTING, compiled=True)
