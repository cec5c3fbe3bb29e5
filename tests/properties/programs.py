"""Random programs of the tensor stage, drawn step by step by hypothesis; the text of a module is what a test gets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bascule.dialect.ir import OperandAttr, builders, context
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.shapes import Size, constant, expr, index_map, row_major, shape_of, size_map, tensor_type
from bascule.dialect.mlir import arith, func, ir, math, scf
from hypothesis import strategies as st

from tests.properties import scalars

ELEMENTS = ("f32", "bf16", "i64", "i1")
SIZES = (1, 2, 3, 4, 6)
MOST_ELEMENTS = 300  # of one value, so that the interpreter stays fast
SYMBOL_VALUE = 5  # about what a symbol counts for


def count(sizes: list[ir.AffineExpr]) -> int:
    """About how many elements `sizes` hold."""
    total = 1
    for size in sizes:
        total *= SYMBOL_VALUE if constant(size) is None else constant(size)
    return total


def name_of(element: ir.Type) -> str:
    return str(element)


@dataclass
class Program:
    """A graph function under construction: its values can be read by the steps to come."""

    draw: st.DrawFn
    module: ir.Module
    symbols: list[ir.Value]
    values: list[ir.Value]
    arguments: int

    def choose(self, items):
        return self.draw(st.sampled_from(list(items)))

    def pick(self, elements=ELEMENTS, rank_at_least: int = 0) -> ir.Value | None:
        """An earlier value, the later ones more often, so that chains and shared producers come up."""
        found = [v for v in self.values if name_of(v.type.element_type) in elements and v.type.rank >= rank_at_least]
        return self.choose(found + found[-2:]) if found else None

    def compute(self, sizes: list[Size], element: ir.Type, body) -> ir.Value:
        type_ = tensor_type(sizes, element)
        return builders.compute(type_, sizes, lambda at: scalars.narrowed(body(at), element))

    def read(self, x: ir.Value, at: list[ir.Value]) -> ir.Value:
        return scalars.widened(builders.read(x, at))

    def apply(self, exprs: list[Size], at: list[ir.Value]) -> list[ir.Value]:
        return builders.apply(index_map(len(at), exprs), at, self.symbols)


# -- steps: each adds a value made of earlier ones, or returns None where it does not apply ------------------------------


def unary(p: Program) -> ir.Value | None:
    x = p.pick()
    body = scalars.UNARY[name_of(x.type.element_type)]
    emit = body[p.choose(body)]
    return p.compute(shape_of(x), x.type.element_type, lambda at: emit(p.read(x, at)))


def convert(p: Program) -> ir.Value | None:
    x = p.pick()
    element = ir.Type.parse(p.choose(ELEMENTS))
    return p.compute(shape_of(x), element, lambda at: scalars.converted(p.read(x, at), element))


def binary(p: Program) -> ir.Value | None:
    """Two values of one element type, broadcast: trailing dimensions of equal size meet, others are read at 0."""
    x = p.pick()
    element = x.type.element_type
    y = p.pick((name_of(element),))
    sizes, others = shape_of(x), shape_of(y)
    if len(others) > len(sizes):
        x, y, sizes, others = y, x, others, sizes
    lead = len(sizes) - len(others)
    meets = [others[i] == sizes[lead + i] for i in range(len(others))]
    if any(not meet and constant(size) != 1 for meet, size in zip(meets, others)):
        return None
    body = scalars.BINARY[name_of(element)]
    emit = body[p.choose(body)]

    def at_other(at):
        return [at[lead + i] if meet else scalars.constant(0, ir.IndexType.get()) for i, meet in enumerate(meets)]

    return p.compute(sizes, element, lambda at: emit(p.read(x, at), p.read(y, at_other(at))))


def reduce(p: Program) -> ir.Value | None:
    """A reduction over some dimensions, kept as size 1 or dropped; of pairs and triples, one of the results."""
    x = p.pick(rank_at_least=1)
    if x is None:
        return None
    sizes, element = shape_of(x), x.type.element_type
    dims = p.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    keep = p.draw(st.booleans())
    kind = p.choose(scalars.REDUCTIONS[name_of(element)])
    which = p.draw(st.integers(0, builders.REDUCE_KINDS[kind] - 1))
    over = [sizes[i] for i in sorted(dims)]
    rest = [expr(1) if i in dims else size for i, size in enumerate(sizes) if keep or i not in dims]
    result = ir.IntegerType.get_signless(64) if kind.startswith("arg") else element
    wide = ir.F32Type.get() if isinstance(element, ir.BF16Type) else element

    def body(outer):
        outer = [v for i, v in enumerate(outer) if not keep or i not in dims]

        def inner(at):
            left, right = iter(outer), iter(at)
            return p.read(x, [next(right) if i in dims else next(left) for i in range(len(sizes))])

        return builders.reduce(kind, over, wide, inner)[which]

    return p.compute(rest, result, body)


def scan(p: Program) -> ir.Value | None:
    x = p.pick(rank_at_least=1)
    kinds = scalars.SCANS[name_of(x.type.element_type)] if x is not None else ()
    if not kinds:
        return None
    kind, sizes = p.choose(kinds), shape_of(x)
    element = ir.IntegerType.get_signless(64) if kind.startswith("arg") else x.type.element_type
    dim = p.draw(st.integers(0, len(sizes) - 1))
    return builders.scan(kind, dim, tensor_type(sizes, element), sizes, lambda at: builders.read(x, at))


def view(p: Program) -> ir.Value | None:
    """permute, slice with a step, unsqueeze, expand, merge or split of dimensions; under row-major types."""
    x = p.pick(rank_at_least=1)
    if x is None:
        return None
    sizes, rank = shape_of(x), x.type.rank
    d = [ir.AffineExpr.get_dim(i) for i in range(rank + 1)]
    i = p.draw(st.integers(0, rank - 1))
    static = constant(sizes[i])
    match p.choose(("permute", "slice", "unsqueeze", "expand", "merge", "split", "flip")):
        case "permute":
            order = p.draw(st.permutations(range(rank)))
            new = [sizes[o] for o in order]
            index = [d[order.index(k)] for k in range(rank)]
        case "slice" if static is not None and static > 1:
            start, step = p.draw(st.integers(0, static - 1)), p.draw(st.integers(1, 2))
            new = [*sizes[:i], expr((static - start + step - 1) // step), *sizes[i + 1 :]]
            index = [*d[:i], d[i] * step + start, *d[i + 1 : rank]]
        case "flip":
            new, index = sizes, [*d[:i], sizes[i] - 1 - d[i], *d[i + 1 : rank]]
        case "unsqueeze" if rank < 4:
            new, index = [*sizes[:i], expr(1), *sizes[i:]], [*d[:i], *d[i + 1 :]]
        case "expand" if static == 1:
            new = [*sizes[:i], expr(p.choose(SIZES)), *sizes[i + 1 :]]
            index = [*d[:i], expr(0), *d[i + 1 : rank]]
        case "merge" if i + 1 < rank:
            inner = sizes[i + 1]
            split_ = [ir.AffineExpr.get_floor_div(d[i], inner), ir.AffineExpr.get_mod(d[i], inner)]
            new, index = [*sizes[:i], sizes[i] * inner, *sizes[i + 2 :]], [*d[:i], *split_, *d[i + 1 : rank - 1]]
        case "split" if static is not None and rank < 4 and (parts := [k for k in (2, 3) if static % k == 0]):
            part = p.choose(parts)
            new = [*sizes[:i], expr(static // part), expr(part), *sizes[i + 1 :]]
            index = [*d[:i], d[i] * part + d[i + 1], *d[i + 2 : rank + 1]]
        case _:
            return None
    if count(new) > MOST_ELEMENTS:
        return None
    return builders.view(x, index_map(len(new), index), new, tensor_type(new, x.type.element_type))


def concatenate(p: Program) -> ir.Value | None:
    """Two values along a dimension, or one with a border: reads guarded by scf.if."""
    x = p.pick(rank_at_least=1)
    if x is None:
        return None
    element, sizes = x.type.element_type, shape_of(x)
    i = p.draw(st.integers(0, len(sizes) - 1))
    fits = [y for y in p.values if y.type.element_type == element and _same_but(shape_of(y), sizes, i)]
    y = p.choose(fits)
    new = [*sizes[:i], sizes[i] + shape_of(y)[i], *sizes[i + 1 :]]
    if count(new) > MOST_ELEMENTS:
        return None

    def body(at):
        (border,) = p.apply([sizes[i]], [])
        first = arith.cmpi(2, at[i], border)
        choice = scf.IfOp(first, [element], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([builders.read(x, at)])
        with ir.InsertionPoint(choice.else_block):
            shifted = arith.subi(at[i], border)
            scf.yield_([builders.read(y, [*at[:i], shifted, *at[i + 1 :]])])
        return choice.operation.results[0]

    return p.compute(new, element, body)


def _same_but(sizes: list[ir.AffineExpr], others: list[ir.AffineExpr], dim: int) -> bool:
    return len(sizes) == len(others) and all(a == b for k, (a, b) in enumerate(zip(sizes, others)) if k != dim)


def _wrapped(index: ir.Value, size: int) -> ir.Value:
    """An i64 as an index in range."""
    positive = arith.remui(index, scalars.constant(size, index.type))
    return arith.index_cast(ir.IndexType.get(), positive)


def gather(p: Program) -> ir.Value | None:
    x, at = p.pick(rank_at_least=1), p.pick(("i64",))
    if x is None or at is None or constant(shape_of(x)[0]) in (None, 0):
        return None
    rows, rest, lead = constant(shape_of(x)[0]), shape_of(x)[1:], at.type.rank
    if lead + len(rest) > 4 or count([*shape_of(at), *rest]) > MOST_ELEMENTS:
        return None
    return p.compute(
        [*shape_of(at), *rest],
        x.type.element_type,
        lambda i: builders.read(x, [_wrapped(builders.read(at, i[:lead]), rows), *i[lead:]]),
    )


def scatter(p: Program) -> ir.Value | None:
    init, at = p.pick(("f32", "i64"), rank_at_least=1), p.pick(("i64",))
    if init is None or at is None or constant(shape_of(init)[0]) in (None, 0):
        return None
    rows, rest, lead = constant(shape_of(init)[0]), shape_of(init)[1:], at.type.rank
    if count([*shape_of(at), *rest]) > MOST_ELEMENTS:
        return None
    mode = p.choose(("set", "add", "max", "min"))

    def body(i, dest):
        source = scalars.converted(builders.read(at, i[:lead]), init.type.element_type)
        builders.store(source, dest, [_wrapped(builders.read(at, i[:lead]), rows), *i[lead:]], mode)

    return builders.scatter(init, [*shape_of(at), *rest], body)


def extern(p: Program) -> ir.Value | None:
    """An ATen operator, which keeps sizes: its operand must be in memory."""
    x = p.pick(("f32", "i64"))
    if x is None:
        return None
    operator = p.choose(("aten.neg.default", "aten.abs.default"))
    operand = OperandAttr.get(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
    type_ = tensor_type(shape_of(x), x.type.element_type)
    if type_ != x.type:
        return None
    shapes = None if type_.has_static_shape else [size_map(shape_of(x))]
    return Externs(p.module).call(operator, [operand], [x], [type_], shapes=shapes)[0]


def random(p: Program) -> ir.Value | None:
    """Numbers of a seed and of the position in a row-major tensor."""
    like = p.pick()
    sizes = shape_of(like)
    place = sum((ir.AffineExpr.get_dim(i) * s for i, s in enumerate(row_major(sizes))), expr(0))

    def body(at):
        (position,) = p.apply([place], at)
        seed = scalars.constant(17, ir.IntegerType.get_signless(64))
        return builders.random("uniform", seed, position, ir.F32Type.get())

    return p.compute(sizes, ir.F32Type.get(), body)


def softmax(p: Program) -> ir.Value | None:
    """The chain that one kernel is expected of: max, exp, sum and quotient over the last dimension."""
    x = p.pick(("f32",), rank_at_least=1)
    if x is None:
        return None
    sizes, f32 = shape_of(x), ir.F32Type.get()
    column = [*sizes[:-1], expr(1)]
    largest = p.compute(
        column, f32, lambda i: builders.reduce("max", sizes[-1:], f32, lambda k: builders.read(x, [*i[:-1], *k]))[0]
    )

    def first(at):
        return [*at[:-1], scalars.constant(0, ir.IndexType.get())]

    powers = p.compute(
        sizes, f32, lambda i: math.exp(arith.subf(builders.read(x, i), builders.read(largest, first(i))))
    )
    total = p.compute(
        column,
        f32,
        lambda i: builders.reduce("sum", sizes[-1:], f32, lambda k: builders.read(powers, [*i[:-1], *k]))[0],
    )
    return p.compute(sizes, f32, lambda i: arith.divf(builders.read(powers, i), builders.read(total, first(i))))


def repeated(p: Program) -> ir.Value | None:
    """A value with another, in as many steps as integers say, at each point its own; the other is read in each step."""
    times = p.pick(("i64",))
    if times is None:
        return None
    sizes = shape_of(times)
    x = p.choose([v for v in p.values if shape_of(v) == sizes])
    element = x.type.element_type
    body = scalars.BINARY[name_of(element)]
    emit = body[p.choose(body)]

    def at_point(at):
        first, zero = p.read(x, at), scalars.constant(0, times.type.element_type)
        limit = arith.andi(builders.read(times, at), scalars.constant(7, zero.type))
        types = [first.type, zero.type]
        loop = scf.WhileOp(types, [first, zero])
        before, after = (loop.regions[i].blocks.append(*types) for i in range(2))
        with ir.InsertionPoint(before):
            more = arith.cmpi(2, before.arguments[1], limit)
            scf.ConditionOp(more, before.arguments)
        with ir.InsertionPoint(after):
            value, count = after.arguments
            scf.YieldOp([emit(value, p.read(x, at)), arith.addi(count, scalars.constant(1, count.type))])
        return loop.results[0]

    return p.compute(sizes, element, at_point)


Step = Callable[[Program], ir.Value | None]
STEPS: tuple[Step, ...] = (
    unary,
    unary,
    binary,
    binary,
    reduce,
    reduce,
    view,
    view,
    convert,
    concatenate,
    gather,
    scan,
    scatter,
)
STEPS += (extern, random, softmax, repeated)


# -- whole programs ------------------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn, dynamic: bool | None = None, steps: Sequence[Step] = STEPS) -> str:
    """The text of a module: a graph function of one to three tensors, three to fourteen of `steps`, one to three results.

    `dynamic`: whether a size is a symbol (None: either).
    """
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with_symbol = draw(st.booleans()) if dynamic is None else dynamic
        symbol = [ir.AffineExpr.get_symbol(0)] if with_symbol else []
        sizes = st.lists(st.sampled_from([*map(expr, SIZES), *symbol]), max_size=3)
        types, shapes = [], []
        for _ in range(draw(st.integers(1, 3))):
            shape, element = draw(sizes), ir.Type.parse(draw(st.sampled_from(ELEMENTS)))
            shapes.append(shape)
            types.append(tensor_type(shape, element, draw(_strides(shape))))
        arguments = [ir.IndexType.get()] * len(symbol) + types
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", (arguments, []))
        block = function.add_entry_block()
        inputs = list(block.arguments)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({})] * len(symbol)
            + [ir.DictAttr.get({"bascule.shape": ir.AffineMapAttr.get(size_map(shape))}) for shape in shapes]
        )
        function.attributes["bascule.graph"] = ir.UnitAttr.get()
        names = [ir.StringAttr.get(f"s{i}") for i in range(len(symbol))]
        function.attributes["bascule.symbols"] = ir.ArrayAttr.get(names)
        program = Program(draw, module, inputs[: len(symbol)], inputs[len(symbol) :], len(types))
        with ir.InsertionPoint(block):
            for step in draw(st.lists(st.sampled_from(steps), min_size=3, max_size=14)):
                value = step(program)
                if value is not None:
                    program.values.append(value)
            _finish(program, function)
        module.operation.verify()
        return str(module)


def _strides(shape: list[ir.AffineExpr]) -> st.SearchStrategy[list[ir.AffineExpr] | None]:
    """Row-major, or another order of the dimensions."""

    def permuted(order: list[int]) -> list[ir.AffineExpr]:
        strides = row_major([shape[o] for o in order])
        return [strides[order.index(i)] for i in range(len(shape))]

    return st.none() | st.permutations(range(len(shape))).map(permuted)


def _finish(program: Program, function: func.FuncOp) -> None:
    """Results: the last value and some others; maybe an argument gets a new value."""
    made = program.values[program.arguments :] or program.values
    results = [made[-1]]
    for value in program.draw(st.lists(st.sampled_from(made), max_size=2)):
        if value not in results:
            results.append(value)
    target = program.values[0]
    fits = [v for v in made if v.type == target.type and v != target and shape_of(v) == shape_of(target)]
    if fits and program.draw(st.booleans()):
        builders.copy_into(program.choose(fits), target)
    func.ReturnOp(results)
    types = [argument.type for argument in function.entry_block.arguments], [value.type for value in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    if any(not value.type.has_static_shape for value in results):
        shapes = [ir.AffineMapAttr.get(size_map(shape_of(value))) for value in results]
        function.attributes["bascule.shapes"] = ir.ArrayAttr.get(shapes)
