"""Divisors: no affine map or set divides by zero, where it is computed for certain."""

import re
from collections.abc import Iterator

from ..errors import UserError
from ..ir.functions import SHAPE, SHAPES
from ..ir.locations import source_of
from ..mlir import ir
from .certainty import runs

# op -> its attributes that are affine maps or sets
_RANGES = ("ranges",)
MAPS: dict[str, tuple[str, ...]] = {
    **{f"affine.{name}": ("map",) for name in ("apply", "load", "store", "min", "max")},
    "affine.for": ("lowerBoundMap", "upperBoundMap"),
    "affine.if": ("condition",),
    **{f"bascule.{name}": _RANGES for name in ("compute", "kernel", "reduce", "scan", "scatter")},
    "bascule.view": ("shape", "map"),
}
_ZERO = re.compile(r"\b(mod|floordiv|ceildiv) 0\b")  # as MLIR prints expressions, constants folded


def check_divisors(op: ir.Operation) -> None:
    """Refuses a map of `op` that divides by zero."""
    for name in MAPS[op.name]:
        divided = _ZERO.search(str(op.attributes[name]))
        if divided is not None and runs(op) and not _maps_nothing(op, name):
            raise UserError(
                f"'{op.name}' has '{name}' = {op.attributes[name]}: '{divided[1]}' by zero",
                location=source_of(op.location),
            )


def _maps_nothing(op: ir.Operation, name: str) -> bool:
    """Whether the points that a map takes may be none: those of a view are its result's."""
    if op.name != "bascule.view" or name != "map":
        return False
    type_ = op.results[0].type
    return not type_.has_static_shape or 0 in type_.shape


def check_sizes(function: ir.Operation) -> None:
    """Refuses sizes of arguments and results of a function that divide by zero."""
    for what, map_ in _sizes(function):
        divided = _ZERO.search(str(map_))
        if divided is not None:
            raise UserError(
                f"'{what}' of @{function.attributes['sym_name'].value} is {map_}: '{divided[1]}' by zero",
                location=source_of(function.location),
            )


def _sizes(function: ir.Operation) -> Iterator[tuple[str, ir.Attribute]]:
    for told in function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else ():
        if SHAPE in told:
            yield SHAPE, told[SHAPE]
    if SHAPES in function.attributes:
        yield SHAPES, function.attributes[SHAPES]
