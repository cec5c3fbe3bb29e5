"""Tensors put together from others by their index: cat, stack, pad, flip, roll, repeat, writes into a region of a view, new_*.

Each is one `bascule.compute` whose body finds the index in the operand; a read that may be outside it stands in an `scf.if`.
"""

from collections.abc import Callable, Sequence

from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, dim, element_count
from ...conversion.registry import LeftToAten, NoRule, rule
from ..support.index_values import compare, extent, when
from ..support.operands import dtype_of_result, index_constant, read
from ..support.scalars import Scalar, scalar_type
from .creation import constant
from .views import wrap_dim

# -- cat and stack ------------------------------------------------------------------------------------------------------

# Of pieces on a GPU. Each program decides between all of them: Triton's time to compile grows with their square (sm_90, of 32, 100 and 300
# pieces 0.4, 2 and 36 s), and so does what is executed. ATen copies each to its place, with work for the host: of numbers that costs more.
MOST_PIECES = 128
MANY_PIECES = 32
SHORT = 128  # elements of a piece


def decide(c: Conversion, parts: Sequence[ir.Value]) -> None:
    """Raises `LeftToAten` where there are too many pieces to decide between them."""
    pieces = len({*parts})
    if c.asked.target == "cpu" or pieces <= MANY_PIECES:
        return
    elements = known(element_count(c.result_sizes[0]))
    if pieces > MOST_PIECES or elements is None or elements > SHORT * pieces:
        raise LeftToAten(f"ATen copies each of {pieces} pieces to its place; a kernel would decide between all of them")


def pick(
    k: ir.Value, bounds: Sequence[ir.Value], type_: ir.Type, branches: Sequence[Callable[[], ir.Value]]
) -> ir.Value:
    """`branches[i]()` for the i with bounds[i-1] <= k < bounds[i], by bisection; `bounds` are between the branches."""
    if len(branches) == 1:
        return branches[0]()
    half = len(branches) // 2
    return when(
        compare("lt", k, bounds[half - 1]),
        type_,
        lambda: pick(k, bounds[: half - 1], type_, branches[:half]),
        lambda: pick(k, bounds[half:], type_, branches[half:]),
    )


@rule("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(c, tensors, number=0):
    rank = len(c.result_sizes[0])
    number = wrap_dim(number, rank)
    # A tensor of shape (0,) is skipped by `cat` whatever the rank of the others.
    parts = [x for x in tensors if not any(known(size) == 0 for size in shape_of(x))]
    if any(len(shape_of(x)) != rank for x in parts):
        raise NoRule("cat of a tensor of another rank, which may be empty")
    dtype = dtype_of_result(c)
    ends, end = [], expr(0)
    for x in parts:
        end = end + shape_of(x)[number]
        ends.append(end)
    decide(c, parts)
    if not parts:
        return c.compute(lambda at: Scalar.constant(0, dtype).value)

    def branch(x: ir.Value, start: Expr, at: Sequence[ir.Value]) -> Callable[[], ir.Value]:
        def piece():
            place = c.apply([dim(0) - start], [at[number]])
            return read(x, [*at[:number], *place, *at[number + 1 :]]).to(dtype).value

        return piece

    def body(at):
        bounds = [extent(c, e) for e in ends[:-1]]
        branches = [branch(x, start, at) for x, start in zip(parts, [expr(0), *ends])]
        return pick(at[number], bounds, scalar_type(dtype), branches)

    return c.compute(body)


@rule("aten.stack.default")
def stack(c, tensors, number=0):
    number, dtype = wrap_dim(number, len(c.result_sizes[0])), dtype_of_result(c)
    decide(c, tensors)

    def body(at):
        rest = [*at[:number], *at[number + 1 :]]
        bounds = [index_constant(i) for i in range(1, len(tensors))]
        branches = [lambda x=x: read(x, rest).to(dtype).value for x in tensors]
        return pick(at[number], bounds, scalar_type(dtype), branches)

    return c.compute(body)


# -- new tensors like another ---------------------------------------------------------------------------------------------


@rule("aten.new_zeros.default")
def new_zeros(c, x, *_):
    return constant(c, 0)


@rule("aten.new_ones.default")
def new_ones(c, x, *_):
    return constant(c, 1)


@rule("aten.new_full.default")
def new_full(c, x, size, number, *_):
    return constant(c, number)
