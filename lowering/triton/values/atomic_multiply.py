"""`memory = memory * value` at every lane at once, by comparing and swapping until all have had their turn: no instruction multiplies."""

from bascule.dialect.mlir import ir

from .builder import Builder, like
from .reduction_kinds import REDUCTIONS, reduce_along

RELAXED, DEVICE = 1, 1  # Triton's numbers of the memory semantics and of the scope


def multiply(b: Builder, pointers: ir.Value, content: ir.Value, inside: ir.Value) -> None:
    """`pointers` to elements of 32 or 64 bits, of `content`'s type; lanes that are not `inside` point to some element, which stays.

    A lane tries what it believes to be there, at first 0, times its value, and is done where memory held just that; else it has seen what
    is there. Compared are bits, so that NaN ends a turn too, and -0.0 is not 0.0.
    """
    scalar = content.type.element_type if isinstance(content.type, ir.RankedTensorType) else content.type
    floating = isinstance(scalar, ir.FloatType)
    integer = b.i32 if scalar.width == 32 else b.i64
    bits = like(content.type, integer)
    if floating:
        pointers = b.value("tt.bitcast", like(pointers.type, ir.Type.parse(f"!tt.ptr<{integer}>")), [pointers])
    zero = b.constant(bits, 0)

    def swap(expected: ir.Value, wanted: ir.Value) -> ir.Value:
        """Compares and swaps; returns what was there."""
        attributes = {"sem": b.number(b.i32, RELAXED), "scope": b.number(b.i32, DEVICE)}
        return b.op("tt.atomic_cas", [bits], [pointers, expected, wanted], attributes).results[0]

    def step(believed: ir.Value, waiting: ir.Value) -> tuple[ir.Value, ir.Value]:
        if floating:
            product = b.same("arith.mulf", b.convert("tt.bitcast", believed, scalar), content)
            product = b.convert("tt.bitcast", product, integer)
        else:
            product = b.same("arith.muli", believed, content)
        # A lane that is done puts 0 in place of 0, which changes nothing.
        seen = swap(b.select(waiting, believed, zero), b.select(waiting, product, zero))
        return seen, b.same("arith.andi", waiting, b.compare("ne", seen, believed))

    types = [zero.type, inside.type]
    b.repeat([zero, inside], types, lambda values: [some(b, values[1]), *values], lambda values: list(step(*values)))


def some(b: Builder, lanes: ir.Value) -> ir.Value:
    """Whether any of `lanes` is set, an i1."""
    if not isinstance(lanes.type, ir.RankedTensorType):
        return lanes
    (count,) = REDUCTIONS["any"].lift(b, lanes, lambda: lanes)
    for axis in reversed(range(len(lanes.type.shape))):
        (count,) = reduce_along(b, REDUCTIONS["any"], [count], axis)
    return b.compare("ne", count, b.constant(count.type, 0))
