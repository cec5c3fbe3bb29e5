"""Additions of rows to rows chosen by data, as sums of segments or of all points: however the indices lie, the numbers stay."""

from bascule.dialect.ir import builders, context
from bascule.dialect.ir.shapes import expr, size_map, tensor_type
from bascule.dialect.mlir import arith, func, ir
from bascule.dialect.passes import registry
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_passes import STAGES, common, compare_after

SEGMENTS = STAGES.index("segment-scatters")
FORCED = tuple(
    f"segment-scatters{{target=cuda always=true {how}}}" for how in ("merged=0", "tile=8", "merged=100 tile=64")
)
GATHERED = "gather-scatters{target=cuda always=true}"


def _for_cuda(stage: str) -> str:
    cls = registry.find(stage)
    has_target = cls is not None and "target" in cls.option_defaults()
    return f"{stage}{{target=cuda}}" if has_target else stage


AFTER = [_for_cuda(stage) for stage in STAGES[SEGMENTS + 1 :]]
GATHER = STAGES.index("gather-scatters")
SPLIT = [stage.replace("split-reductions{", "split-reductions{parallel=3 min-size=2 ") for stage in AFTER]


def _added(element: ir.Type, value: ir.Value, index: ir.Value, padding: int | None) -> ir.Value:
    """Twice the value, zero at the padding index."""
    twice = arith.addf if isinstance(element, ir.FloatType) else arith.addi
    value = twice(value, value)
    if padding is None:
        return value
    here = arith.cmpi(
        arith.CmpIPredicate.eq, index, arith.constant(index.type, ir.IntegerAttr.get(index.type, padding))
    )
    number = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return arith.select(here, arith.constant(element, number), value)


@st.composite
def additions(draw: st.DrawFn) -> str:
    """The text of a module: `table[index[n, m], :] += 2 * rows[n, m, :]`, and something pointwise after it."""
    rows, width, chosen = draw(st.sampled_from((1, 2, 7, 40))), draw(st.sampled_from((1, 3))), draw(st.integers(1, 40))
    second = draw(st.sampled_from((1, 3)))
    with context(), ir.Location.unknown():
        symbols = draw(st.booleans())
        first = ir.AffineExpr.get_symbol(0) if symbols else expr(draw(st.sampled_from((0, 1, 21, 75, 800))))
        element = ir.Type.parse(draw(st.sampled_from(("f32", "i64"))))
        i64, points = ir.IntegerType.get_signless(64), [first, expr(second)]
        shapes = [[expr(rows), expr(width)], points, [*points, expr(width)]]
        types = [tensor_type(shape, e) for shape, e in zip(shapes, (element, i64, element))]
        inputs = [ir.IndexType.get()] * symbols + types
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", (inputs, []))
        block = function.add_entry_block()
        table, index, values = list(block.arguments)[symbols:]
        extra = {"bascule.range": ir.ArrayAttr.get([ir.IntegerAttr.get(i64, n) for n in (0, min(chosen, rows))])}
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({})] * symbols
            + [
                ir.DictAttr.get(
                    {"bascule.shape": ir.AffineMapAttr.get(size_map(shape))} | (extra if t == types[1] else {})
                )
                for shape, t in zip(shapes, types)
            ]
        )
        function.attributes["bascule.graph"] = ir.UnitAttr.get()
        if symbols:
            function.attributes["bascule.symbols"] = ir.ArrayAttr.get([ir.StringAttr.get("s0")])
        padding = draw(st.sampled_from((None, None, 0)))

        def body(at, dest):
            number = builders.read(index, at[:2])
            value = _added(element, builders.read(values, at), number, padding)
            builders.store(value, dest, [arith.index_cast(ir.IndexType.get(), number), at[2]], "add")

        with ir.InsertionPoint(block):
            sums = builders.scatter(table, [*points, expr(width)], body)
            double = arith.addf if isinstance(element, ir.FloatType) else arith.addi

            def after(at):
                return double(builders.read(sums, at), builders.read(sums, at))

            results = [builders.compute(types[0], shapes[0], after)]
            if draw(st.booleans()):
                results.append(sums)
            func.ReturnOp(results)
        function.operation.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs, [result.type for result in results])
        )
        return str(module)


sizes = st.sampled_from((0, 1, 21, 75, 800))  # of the symbol


@common
@given(text=additions(), size=sizes, forced=st.sampled_from(FORCED))
def test_sums_of_segments_are_the_same(text, size, forced):
    compare_after(text, size, list(STAGES[:SEGMENTS]), [forced])
    compare_after(text, size, [], [*STAGES[:SEGMENTS], forced, *AFTER])


@common
@given(text=additions(), size=sizes)
def test_sums_over_all_points_are_the_same(text, size):
    before = list(STAGES[:GATHER])
    compare_after(text, size, before, [GATHERED])
    compare_after(text, size, [], [*before, GATHERED, *SPLIT])
