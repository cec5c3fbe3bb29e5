"""Index simplification, inlining and the forming of kernels: what they promise, held against brute force and the interpreter."""

import itertools
import sys

import pytest
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.interpreter import compare, interpret, random_inputs
from bascule.dialect.ir import builders, context
from bascule.dialect.ir.functions import functions, graph_functions, kernel_op
from bascule.dialect.ir.shapes import tensor_type
from bascule.dialect.mlir import arith, func, ir, math
from bascule.dialect.passes import Pipeline
from hypothesis import given, settings
from hypothesis import strategies as st

FUSION = "fold-views,simplify-indexing,inline-producers,canonicalize,cse,form-kernels,cse,schedule-kernels"


@pytest.fixture(autouse=True)
def mlir():
    with context() as ctx, ir.Location.unknown():
        yield ctx


# -- index arithmetic ---------------------------------------------------------------------------------------------------


def map_of(text: str) -> ir.AffineMap:
    return ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<{text}>")).value


@pytest.mark.parametrize(
    "text, extents, simplest",
    [
        ("(d0, d1) -> ((d0 * 32 + d1) floordiv 32)", "8, 32", "(d0, d1) -> (d0)"),
        ("(d0, d1) -> ((d0 * 32 + d1) mod 32)", "8, 32", "(d0, d1) -> (d1)"),
        ("(d0, d1) -> ((d0 * 32 + d1) floordiv 32)", "8, 33", "(d0, d1) -> (d0 + d1 floordiv 32)"),
        ("(d0, d1) -> ((d0 * 64 + d1) floordiv 8)", "8, 8", "(d0, d1) -> (d0 * 8)"),
        ("(d0) -> ((d0 floordiv 4) floordiv 3)", "99", "(d0) -> (d0 floordiv 12)"),
        ("(d0) -> ((d0 floordiv 12) * 12 + ((d0 floordiv 4) mod 3) * 4 + d0 mod 4)", "99", "(d0) -> (d0)"),
        ("(d0) -> (((d0 floordiv 8) mod 4) * 8 + d0 mod 8)", "99", "(d0) -> (d0 mod 32)"),
        ("(d0) -> ((d0 mod 12) mod 4)", "99", "(d0) -> (d0 mod 4)"),
        ("(d0) -> (d0 ceildiv 4)", "1", "(d0) -> (0)"),
        ("(d0, d1)[s0] -> ((d0 * s0 + d1) floordiv s0)", "s1, s0", "(d0, d1)[s0] -> (d0)"),
        ("(d0, d1)[s0] -> ((d0 * s0 + d1) mod s0)", "s1, s0", "(d0, d1)[s0] -> (d1)"),
        ("(d0)[s0] -> ((d0 floordiv s0) * s0 + d0 mod s0)", "s0 * 4", "(d0)[s0] -> (d0)"),
        ("(d0)[s0, s1] -> ((d0 floordiv s1) floordiv s0)", "s0 * s1", "(d0)[s0, s1] -> (0)"),
        ("(d0)[s0] -> (d0 floordiv s0)", "s0 + 1", "(d0)[s0] -> (d0 floordiv s0)"),
    ],
)
def test_simplification(text, extents, simplest):
    sizes = list(map_of(f"()[s0, s1] -> ({extents})").results)
    assert Simplifier()(map_of(text), sizes) == map_of(simplest)


def test_an_unknown_range_is_not_assumed():
    assert Simplifier()(map_of("(d0) -> (d0 mod 8)"), [None]) == map_of("(d0) -> (d0 mod 8)")


@st.composite
def expressions(draw, depth=4):
    """An affine expression of d0, d1, d2."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        number = st.integers(-9, 9).map(ir.AffineExpr.get_constant)
        return draw(st.one_of(st.integers(0, 2).map(ir.AffineExpr.get_dim), number))
    left = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["add", "mul", "floor_div", "mod", "ceil_div"]))
    if kind == "add":
        return left + draw(expressions(depth - 1))
    if kind == "mul":
        return left * draw(st.sampled_from([-1, 2, 3, 4, 6, 12]))
    return getattr(ir.AffineExpr, f"get_{kind}")(left, ir.AffineExpr.get_constant(draw(st.sampled_from([2, 3, 4, 12]))))


def value(e: ir.AffineExpr, point: tuple[int, ...]) -> int:
    if isinstance(e, ir.AffineConstantExpr):
        return e.value
    if isinstance(e, ir.AffineDimExpr):
        return point[e.position]
    a, b = value(e.lhs, point), value(e.rhs, point)
    kinds = {ir.AffineAddExpr: a + b, ir.AffineMulExpr: a * b}
    if type(e) in kinds:
        return kinds[type(e)]
    return a % b if isinstance(e, ir.AffineModExpr) else -(-a // b) if isinstance(e, ir.AffineCeilDivExpr) else a // b


@settings(deadline=None, max_examples=200)
@given(data=st.data(), extents=st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=3, max_size=3))
def test_simplification_keeps_every_value(data, extents):
    with context():
        map_ = ir.AffineMap.get(3, 0, [data.draw(expressions())])
        before, after = map_.results[0], Simplifier()(map_, extents).results[0]
        for point in itertools.product(*map(range, extents)):
            assert value(before, point) == value(after, point), (str(before), str(after), extents)


# -- fusion -------------------------------------------------------------------------------------------------------------


class Graph:
    """A graph function under construction, row-major f32."""

    def __init__(self, *shapes: tuple[int, ...]):
        self.module = ir.Module.create()
        inputs = [tensor_type(shape, ir.F32Type.get()) for shape in shapes]
        with ir.InsertionPoint(self.module.body):
            self.function = func.FuncOp("main", ir.FunctionType.get(inputs, []))
        self.function.operation.attributes["bascule.graph"] = ir.UnitAttr.get()
        self.block = self.function.add_entry_block()
        self.inputs = list(self.block.arguments)

    def pointwise(self, operation, *operands: ir.Value) -> ir.Value:
        """`operation` of the operands' elements; a dim of size 1 broadcasts."""
        rank = max(operand.type.rank for operand in operands)
        sizes = [max(operand.type.shape[d] for operand in operands) for d in range(rank)]

        def body(at):
            zero = arith.constant(ir.IndexType.get(), 0)
            return operation(
                *(builders.read(o, [zero if s == 1 else i for i, s in zip(at, o.type.shape)]) for o in operands)
            )

        with ir.InsertionPoint(self.block):
            return builders.compute(tensor_type(sizes, ir.F32Type.get()), sizes, body)

    def reduce(self, kind: str, x: ir.Value, dim: int) -> ir.Value:
        """Along `dim`, which stays with size 1."""
        sizes = [1 if d == dim else s for d, s in enumerate(x.type.shape)]

        def body(at):
            def element(inner):
                return builders.read(x, [inner[0] if d == dim else i for d, i in enumerate(at)])

            return builders.reduce(kind, [x.type.shape[dim]], ir.F32Type.get(), element)[0]

        with ir.InsertionPoint(self.block):
            return builders.compute(tensor_type(sizes, ir.F32Type.get()), sizes, body)

    def fused(self, *results: ir.Value) -> list[ir.Operation]:
        """The kernels of the graph that returns `results`; its numbers are checked to stay."""
        with ir.InsertionPoint(self.block):
            func.ReturnOp(list(results))
        types = [argument.type for argument in self.inputs], [result.type for result in results]
        self.function.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        inputs = random_inputs(self.module)
        expected = interpret(self.module, [x.clone() for x in inputs])
        Pipeline.parse(FUSION).run(self.module, verify=True)
        outcome = compare(expected, interpret(self.module, inputs), 1e-4)
        assert outcome.match, outcome.differences
        return [kernel for kernel in map(kernel_op, functions(self.module)) if kernel is not None]

    def calls(self) -> list[ir.Operation]:
        block = graph_functions(self.module)[0].regions[0].blocks[0]
        return [op.operation for op in block.operations if op.operation.name == "func.call"]


def loops(kernel: ir.Operation) -> list[str]:
    """The loops directly in a kernel, in order."""
    names = [op.operation.name.removeprefix("bascule.") for op in kernel.regions[0].blocks[0].operations]
    return [name for name in names if name in ("reduce", "compute", "foreach", "scan")]


def layer_norm(g: Graph, x: ir.Value, w: ir.Value, b: ir.Value) -> ir.Value:
    n = float(x.type.shape[-1])
    mean = g.pointwise(lambda s: arith.divf(s, number(n)), g.reduce("sum", x, 1))
    centred = g.pointwise(arith.subf, x, mean)
    squares = g.reduce("sum", g.pointwise(lambda c: arith.mulf(c, c), centred), 1)
    scale = g.pointwise(lambda s: math.rsqrt(arith.addf(arith.divf(s, number(n)), number(1e-5))), squares)
    return g.pointwise(arith.addf, g.pointwise(arith.mulf, g.pointwise(arith.mulf, centred, scale), w), b)


def number(x: float) -> ir.Value:
    return arith.constant(ir.F32Type.get(), x)


def test_a_softmax_is_one_kernel_that_computes_each_exponential_once():
    g = Graph((16, 64))
    (x,) = g.inputs
    powers = g.pointwise(lambda e, m: math.exp(arith.subf(e, m)), x, g.reduce("max", x, 1))
    (kernel,) = g.fused(g.pointwise(arith.divf, powers, g.reduce("sum", powers, 1)))
    assert loops(kernel) == ["reduce", "compute", "reduce", "foreach"]
    assert str(kernel).count("math.exp") == 1


def test_a_softmax_of_columns_keeps_no_tile():
    g = Graph((16, 64))
    (x,) = g.inputs
    powers = g.pointwise(lambda e, m: math.exp(arith.subf(e, m)), x, g.reduce("max", x, 0))
    (kernel,) = g.fused(g.pointwise(arith.divf, powers, g.reduce("sum", powers, 0)))
    assert loops(kernel) == ["reduce", "reduce", "foreach"]


def test_a_layer_norm_with_what_it_normalizes_is_one_kernel():
    g = Graph((16, 64), (16, 64), (1, 64), (1, 64))
    x, y, w, b = g.inputs
    total = g.pointwise(arith.addf, x, y)
    (kernel,) = g.fused(total, layer_norm(g, total, w, b))
    assert loops(kernel) == ["reduce", "reduce", "foreach"]


def test_what_is_the_same_in_a_row_is_computed_once_a_row():
    g = Graph((16, 64), (1, 64), (1, 64))
    (kernel,) = g.fused(layer_norm(g, *g.inputs))
    (point,) = kernel.regions[0].blocks
    assert [op.operation.name for op in point.operations].count("math.rsqrt") == 1


def test_sums_of_the_same_columns_are_one_kernel():
    g = Graph((512, 1024), (512, 1024))
    x, y = g.inputs
    (kernel,) = g.fused(g.reduce("sum", x, 0), g.reduce("sum", g.pointwise(arith.mulf, x, y), 0))
    assert loops(kernel) == ["reduce", "reduce"]


def test_sums_of_rows_and_of_columns_stay_apart():
    g = Graph((512, 1024))
    (x,) = g.inputs
    assert len(g.fused(g.reduce("sum", x, 0), g.reduce("sum", x, 1))) == 2


def test_no_cycle_arises_through_a_third_kernel():
    """a -> columns -> c, and a -> c: were a and c one kernel, the sum of columns would have to run in the middle of it."""
    g = Graph((512, 1024))
    (x,) = g.inputs
    a = g.pointwise(math.exp, x)
    c = g.pointwise(arith.mulf, a, g.reduce("sum", a, 0))
    g.fused(a, c)
    remarks = [str(call.attributes["bascule.remarks"]) for call in g.calls() if "bascule.remarks" in call.attributes]
    assert any("columns" in remark for remark in remarks)


def test_equal_kernels_share_a_function():
    g = Graph(*[(512, 1024)] * 3)
    assert len(g.fused(*(g.pointwise(math.exp, g.reduce("max", x, 1)) for x in g.inputs))) == 1
    assert len(g.calls()) == 3


def test_small_kernels_are_one_launch():
    g = Graph(*[(n, 8) for n in range(2, 12)])
    (kernel,) = g.fused(*(g.pointwise(math.exp, x) for x in g.inputs))
    assert loops(kernel) == ["foreach"] * 10


def test_a_chain_read_twice_at_each_step_does_not_explode():
    g = Graph((8, 8))
    (x,) = g.inputs
    for _ in range(60):
        x = g.pointwise(arith.addf, x, x)
    kernels = g.fused(x)
    assert sum(str(kernel).count("arith.addf") for kernel in kernels) == 60


def blocks(count: int) -> Graph:
    """`count` blocks: a layer norm, a costly function with two readers, a sum with what came before."""
    g = Graph((64, 256), (1, 256), (1, 256))
    x, w, b = g.inputs
    for _ in range(count):
        y = g.pointwise(math.tanh, layer_norm(g, x, w, b))
        x = g.pointwise(arith.addf, x, g.pointwise(arith.mulf, y, g.reduce("max", y, 1)))
    with ir.InsertionPoint(g.block):
        func.ReturnOp([x])
    types = ir.FunctionType.get([argument.type for argument in g.inputs], [x.type])
    g.function.operation.attributes["function_type"] = ir.TypeAttr.get(types)
    return g


def test_the_work_grows_with_the_graph():
    """Counted in Python calls, which do not depend on the machine: twice the graph is little more than twice the work."""

    def work(count: int) -> int:
        g, calls = blocks(count), 0

        def profile(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(profile)
        try:
            Pipeline.parse(FUSION).run(g.module)
        finally:
            sys.setprofile(None)
        return calls

    work(2)
    assert work(40) < 2.5 * work(20)
