"""Costs of ops, domains and tensors, where one way of computing something is compared with another."""

from collections.abc import Sequence

from ...ir.shapes import constant
from ...ir.types import byte_width
from ...mlir import ir

# Of integers. A division by zero may end the process.
DIVISIONS = (
    *("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"),
    *("arith.floordivsi", "arith.ceildivsi", "arith.ceildivui"),
)
RAGGED = 64  # a loop whose length comes from data
DYNAMIC = 256  # what a symbol counts as
# What one scalar op costs where vector code runs it, in units of an addition. Ops that are not listed cost 1.
COSTS = {
    **dict.fromkeys(
        ("tensor.extract", "affine.apply", "arith.constant", "arith.index_cast", "arith.extf", "arith.bitcast"), 0
    ),
    **dict.fromkeys(("scf.if", "scf.while", "bascule.store", "builtin.unrealized_conversion_cast"), 0),
    "bascule.reduce": 0,  # it takes as much as what it has inside, and an addition a point
    "scf.for": RAGGED,
    "arith.divf": 5,
    "arith.remf": 20,
    **dict.fromkeys(DIVISIONS, 20),
    "arith.truncf": 2,
    "math.sqrt": 6,
    "math.rsqrt": 8,
    **dict.fromkeys(("math.absf", "math.absi", "math.fma", "math.floor", "math.ceil", "math.trunc"), 1),
    **dict.fromkeys(("math.roundeven", "math.copysign"), 1),
    "bascule.random": 40,
}
TRANSCENDENTAL = 20  # any other op of the math dialect


def op_cost(name: str) -> int:
    known = COSTS.get(name)
    if known is not None:
        return known
    return TRANSCENDENTAL if name.startswith("math.") else 1


def magnitude(sizes: Sequence[ir.AffineExpr], seen: Sequence[int] = ()) -> int:
    """About how many points a domain of `sizes` has: symbols count as they were `seen` (0: never), or as `DYNAMIC`; so do pieces
    of those, quotients that are rounded up."""
    points = 1
    for size in sizes:
        points *= _value(size, seen)
    return points


def _value(size: ir.AffineExpr, seen: Sequence[int]) -> int:
    if isinstance(size, ir.AffineConstantExpr):
        return size.value
    if isinstance(size, ir.AffineSymbolExpr):
        return (seen[size.position] if size.position < len(seen) else 0) or DYNAMIC
    if not isinstance(size, ir.AffineBinaryExpr):
        return DYNAMIC
    left, right = _value(size.lhs, seen), _value(size.rhs, seen)
    if isinstance(size, ir.AffineAddExpr):
        return max(1, left + right)
    if isinstance(size, ir.AffineMulExpr):
        return max(1, left * right)
    unseen = isinstance(size, ir.AffineCeilDivExpr) and constant(size.lhs) is None and not seen
    return max(DYNAMIC if unseen else 1, left // max(1, right))


def tensor_bytes(value: ir.Value) -> int:
    """About how many bytes a tensor has, by its type."""
    type_ = value.type
    elements = 1
    for i in range(type_.rank):
        elements *= DYNAMIC if type_.is_dynamic_dim(i) else type_.get_dim_size(i)
    return elements * byte_width(type_.element_type)
