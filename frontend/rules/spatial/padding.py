"""Padding: with a constant, by reflection at the border, by repeating the border; and the backwards of the last two."""

from collections.abc import Callable, Sequence

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, dim
from ...conversion.registry import rule
from ..index.scatter import filled, scattered
from ..shape.views import counts_from_end
from ..support.index_values import both, choose, clamped, compare, extent, when
from ..support.operands import dtype_of_result, number_scalar, numbers_only, read, tensor_dtype
from ..support.requirements import require_held
from ..support.scalars import scalar_type


def pad_widths(pad: Sequence[int | Expr], rank: int) -> list[tuple[Expr, Expr]]:
    """(before, after) for each of `rank` dimensions, from a list that starts with the last one."""
    pairs = [(expr(pad[i]), expr(pad[i + 1])) for i in range(0, len(pad), 2)]
    return [(expr(0), expr(0))] * (rank - len(pairs)) + pairs[::-1]


@rule("aten.constant_pad_nd.default")
def constant_pad_nd(c, x, pad, value=0):
    """`x` inside a border of `value`; a negative width cuts off."""
    sizes, dtype = shape_of(x), tensor_dtype(x)
    require_held(value, dtype)
    widths = pad_widths(pad, len(sizes))

    def body(at):
        place = c.apply([dim(i) - before for i, (before, _) in enumerate(widths)], at)
        inside = []
        for i, (before, after) in enumerate(widths):
            if known(before) != 0 and not counts_from_end(before):
                inside.append(compare("ge", place[i], 0))
            if known(after) != 0 and not counts_from_end(after):
                inside.append(compare("lt", place[i], extent(c, sizes[i])))
        return when(
            both(inside),
            scalar_type(dtype),
            lambda: builders.read(x, place),
            lambda: number_scalar(c, value, dtype).value,
        )

    return c.compute(body)


Border = Callable[[Conversion, ir.Value, Expr], ir.Value]  # a place, perhaps outside, and the size -> the element taken


def reflected(c: Conversion, place: ir.Value, size: Expr) -> ir.Value:
    """Mirrored at the first and at the last element."""
    before, after = c.apply([dim(0) * -1, (size - 1) * 2 - dim(0)], [place])
    place = choose(compare("lt", place, 0), before, place)
    return choose(compare("ge", place, extent(c, size)), after, place)


def replicated(c: Conversion, place: ir.Value, size: Expr) -> ir.Value:
    return clamped(place, extent(c, size - 1))


def padded_places(c: Conversion, sizes: Sequence[Expr], pad, border: Border, at: Sequence[ir.Value]) -> list[ir.Value]:
    """The index in the input, of `sizes`, of the padded tensor's element at `at`."""
    places = []
    for i, (before, after) in enumerate(pad_widths(pad, len(sizes))):
        if known(before) == 0 and known(after) == 0:
            places.append(at[i])
        else:
            places.append(border(c, c.apply([dim(0) - before], [at[i]])[0], sizes[i]))
    return places


def padded_element(c: Conversion, x: ir.Value, pad, border: Border, at: Sequence[ir.Value]) -> ir.Value:
    """The padded tensor's element at `at`. For a CPU what lies inside along the last dimension is read by itself, where memory runs."""
    sizes, dtype = shape_of(x), tensor_dtype(x)
    places = padded_places(c, sizes, pad, border, at)
    before, after = pad_widths(pad, len(sizes))[-1]
    if c.asked.target != "cpu" or any(known(width) == 0 for width in (before, after)):
        return builders.read(x, places)
    (inner,) = c.apply([dim(0) - before], [at[-1]])
    inside = both([compare("ge", inner, 0), compare("lt", inner, extent(c, sizes[-1]))])
    return when(
        inside, scalar_type(dtype), lambda: builders.read(x, [*places[:-1], inner]), lambda: builders.read(x, places)
    )


def register_border(name: str, border: Border, rank: int) -> None:
    @rule(f"aten.{name}{rank}d.default")
    @numbers_only
    def forward(c, x, pad):
        return c.compute(lambda at: padded_element(c, x, pad, border, at))

    @rule(f"aten.{name}{rank}d_backward.default")
    def backward(c, grad, x, pad):
        dtype_of_result(c)

        def write(at):
            return padded_places(c, c.result_sizes[0], pad, border, at), read(grad, at)

        return scattered(c, filled(c, 0), shape_of(grad), write, "add")


for spatial in (1, 2, 3):
    register_border("reflection_pad", reflected, spatial)
    register_border("replication_pad", replicated, spatial)
