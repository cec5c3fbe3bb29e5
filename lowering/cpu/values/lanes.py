"""Lanes of vectors: taken out, put together, cut into the registers that hold them (which costs nothing)."""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from .scalars import Scalars, element


def extract(s: Scalars, x: ir.Value, at: int) -> ir.Value:
    """Lane number `at` of a vector."""
    position = {"static_position": ir.DenseI64ArrayAttr.get([at])}
    return s.b.value("vector.extract", element(x.type), [x], position, s.level)


def shuffle(s: Scalars, x: ir.Value, y: ir.Value, pattern: list[int]) -> ir.Value:
    """The lanes of `x` followed by `y` at the positions of `pattern`."""
    type_ = ir.VectorType.get([len(pattern)], element(x.type))
    return s.b.value("vector.shuffle", type_, [x, y], {"mask": ir.DenseI64ArrayAttr.get(pattern)}, s.level)


def pieces(s: Scalars, x: ir.Value, lanes: int) -> list[ir.Value]:
    """A vector as vectors of `lanes`; by itself if it has no more."""
    width = x.type.shape[0]
    if width <= lanes:
        return [x]
    return [shuffle(s, x, x, list(range(start, start + lanes))) for start in range(0, width, lanes)]


def joined(s: Scalars, parts: Sequence[ir.Value]) -> ir.Value:
    """The vector of which `parts` are the pieces; their number is a power of two."""
    parts = list(parts)
    while len(parts) > 1:
        size = parts[0].type.shape[0]
        parts = [shuffle(s, x, y, list(range(2 * size))) for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def halves(s: Scalars, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The lower and the upper half of a vector."""
    low, high = pieces(s, x, x.type.shape[0] // 2)
    return low, high


def registers(s: Scalars, x: ir.Value) -> int:
    """How many registers hold `x`; 1 where it is no vector."""
    if not isinstance(x.type, ir.VectorType):
        return 1
    return max(1, x.type.shape[0] * element(x.type).width // s.b.register)
