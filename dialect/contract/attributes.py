"""Attributes of the dialect, on ops, functions, arguments and results: each is of the kind that whoever reads it takes for granted.

A mark says what it says by being there: of marks, those of functions and arguments alone are looked at.
"""

from collections.abc import Callable

from ..errors import UserError
from ..fusion.chunk_sizes import CHUNKS, ROW_CHUNK
from ..ir import attribute_names as names
from ..ir import functions as of
from ..ir.attributes import value_of
from ..ir.locations import source_of
from ..ir.memory_ops import WHOLE
from ..mlir import ir

Complaint = Callable[[ir.Attribute], str | None]
Kind = type[ir.Attribute]


def _all(kind: Kind) -> Complaint:
    """Complains of a list with anything but `kind`."""

    def complaint(found: ir.Attribute) -> str | None:
        wrong = next((entry for entry in _entries(found) if not isinstance(entry, kind)), None)
        return None if wrong is None else f"has {wrong} in it, which is of another type than {kind.__name__}"

    return complaint


def _entries(found: ir.Attribute) -> list[ir.Attribute]:
    try:
        return list(found)
    except TypeError:  # the bindings have no class for one
        return [ir.TypeAttr.get(ir.NoneType.get())]


def _records(found: ir.Attribute) -> str | None:
    """Of `bascule.remarks`: dictionaries, and texts, which are notes."""
    known = all(isinstance(entry, ir.DictAttr | ir.StringAttr) for entry in _entries(found))
    return None if known else "has neither dictionaries nor texts in it"


def _chunks(found: ir.DictAttr) -> str | None:
    numbers = [found[name] if name in found else None for name in ("split", "count", "size")]
    ranges = found["ranges"] if "ranges" in found else None
    if isinstance(ranges, ir.DenseI64ArrayAttr) and all(isinstance(number, ir.IntegerAttr) for number in numbers):
        return None if 0 <= numbers[0].value < len(ranges) else f"has no range {numbers[0].value} to split"  # type: ignore[union-attr]
    return "is not {ranges = array<i64: ..>, split = .., count = .., size = ..}"


def _bounds(found: ir.ArrayAttr) -> str | None:
    numbers = [bound.value for bound in _entries(found) if isinstance(bound, ir.IntegerAttr | ir.FloatAttr)]
    if len(numbers) == len(found) == 2 and numbers[0] <= numbers[1]:
        return None
    return f"is {found}: the least and the greatest element are needed, as numbers, like [0, 5]"


def _positive(found: ir.IntegerAttr) -> str | None:
    return None if found.value > 0 else f"is {found.value}: a positive number is needed"


_MARKS = dict.fromkeys((of.GRAPH, of.EFFECTS, of.BEGINS), ir.UnitAttr)
# Attribute -> the class of its value, wherever it stands outside of bodies.
KINDS: dict[str, Kind] = {
    **_MARKS,
    **dict.fromkeys((of.SYMBOLS, of.INPUTS, of.OUTPUTS, of.SYMBOL_SOURCES, of.SHAPES, of.REMARKS), ir.ArrayAttr),
    **dict.fromkeys((names.OPERATORS, of.ARGUMENTS), ir.ArrayAttr),
    **dict.fromkeys((of.STORAGES, of.RESULTS, of.MUTATES, of.SEEN, names.TOGETHER_DIMS), ir.DenseI64ArrayAttr),
    **dict.fromkeys((names.HOST_INPUTS, names.HOST_OUTPUTS), ir.DenseI64ArrayAttr),
    **dict.fromkeys((of.CHUNK_ROWS, of.GIVEN, of.RANKS, of.OVER, names.TOGETHER, ROW_CHUNK), ir.IntegerAttr),
    names.PARTIAL_SUMS: ir.IntegerAttr,
    **dict.fromkeys((of.EXTERN, of.REASON, of.OUT, names.INPUT_PRECISION), ir.StringAttr),
    **dict.fromkeys((names.MEMORY, names.OVERLAP, names.HOST_COPIES, CHUNKS), ir.DictAttr),
    WHOLE: ir.UnitAttr,
}
# The same of an argument or a result.
ARGUMENT_KINDS: dict[str, Kind] = {
    of.SHAPE: ir.AffineMapAttr,
    of.CONSTANT: ir.StringAttr,
    of.RANGE: ir.ArrayAttr,
    of.RETURNED_AS: ir.StringAttr,
    of.STRIDES: ir.AffineMapAttr,
    **dict.fromkeys((of.DIES, of.RETURNED_TOO, of.TANGENT, of.NULLABLE, of.ANY_STRIDES, names.UNALIGNED), ir.UnitAttr),
}
# What is asked of a value beyond its class.
COMPLAINTS: dict[str, Complaint] = {
    of.SYMBOLS: _all(ir.StringAttr),
    of.INPUTS: _all(ir.StringAttr),
    of.SYMBOL_SOURCES: _all(ir.DictAttr),
    of.SHAPES: _all(ir.AffineMapAttr),
    of.REMARKS: _records,
    of.RANGE: _bounds,
    of.RANKS: _positive,
    names.OPERATORS: _all(ir.StringAttr),
    CHUNKS: _chunks,
}
# Ops with attributes of the dialect, outside of bodies and, of reductions, in them.
HOLDERS = (
    "func.call",
    "memref.alloc",
    *(f"bascule.{name}" for name in ("compute", "copy_into", "kernel", "reduce", "scan", "scatter", "view")),
)


def check_attributes(op: ir.Operation) -> None:
    """Refuses an attribute of the dialect, of an op or a function, that is of another kind than it is read as."""
    _check(op, op.attributes, KINDS, lambda: _named(op))


def check_arguments(function: ir.Operation) -> None:
    """The same for the attributes of a function's arguments and results."""
    for what, holders in (("argument", "arg_attrs"), ("result", "res_attrs")):
        for number, told in enumerate(function.attributes[holders] if holders in function.attributes else ()):
            _check(function, told, ARGUMENT_KINDS, lambda: f"{what} {number} of {_named(function)}")  # noqa: B023


def _check(
    op: ir.Operation, holder: ir.OpAttributeMap | ir.DictAttr, kinds: dict[str, Kind], named: Callable[[], str]
) -> None:
    for name in _names(holder):
        if name not in kinds and op.name != "func.func":  # passes copy those of functions
            continue
        value, complaint = value_of(holder, name), None
        if name in kinds and not isinstance(value, kinds[name]):
            complaint = f"is of another type than {kinds[name].__name__}"
        elif value is None:
            complaint = "is of a type that MLIR's Python bindings have no class for"
        elif name in COMPLAINTS:
            complaint = COMPLAINTS[name](value)
        if complaint is not None:
            raise UserError(f"'{name}' of {named()} {complaint}", location=source_of(op.location))


def _names(holder: ir.OpAttributeMap | ir.DictAttr) -> list[str]:
    return [holder[n].name for n in range(len(holder))] if isinstance(holder, ir.DictAttr) else list(holder)


def _named(op: ir.Operation) -> str:
    return f"@{op.attributes['sym_name'].value}" if op.name == "func.func" else f"'{op.name}'"
