"""Element types: how a value in memory relates to a scalar in a region.

A tensor of unsigned integers has elements `ui8` .. `ui64`; scalars are always signless. Reading such a tensor is a `tensor.extract`
followed by `builtin.unrealized_conversion_cast ui8 to i8` (`read` in `ir/builders.py` makes both); storing takes the signless scalar.
A boolean is `i1` as a scalar and one byte in memory.
"""

from collections.abc import Iterable
from itertools import takewhile

from ..mlir import ir


def scalar_type(element: ir.Type) -> ir.Type:
    """The type of a scalar read from a tensor of `element`: the signless integer of the same width, or itself."""
    if isinstance(element, ir.IntegerType) and not element.is_signless:
        return ir.IntegerType.get_signless(element.width, context=element.context)
    return element


def byte_width(element: ir.Type) -> int:
    """Bytes of one element in memory."""
    if isinstance(element, ir.IntegerType):
        return max(1, element.width // 8)
    if isinstance(element, ir.ComplexType):
        return 2 * byte_width(element.element_type)
    if isinstance(element, ir.IndexType):
        return 8
    return element.width // 8


def is_float(type_: ir.Type) -> bool:
    return isinstance(type_, ir.FloatType)


# Marks on conversions. What an `arith.extf` without one widens is for arithmetic on 16 bits, and need not be rounded.
CAST = "bascule.cast"  # on an `arith.extf`, or an `arith.truncf` to 16 bits: the user's own; where two meet, the number is rounded
STORED = "bascule.stored"  # on an `arith.extf`: takes the number as it would be in memory
# On the op that made a number: all that read it would have it rounded to 16 bits, but for a fusion. What is computed of it may be approximated.
ROUNDED = "bascule.rounded"


def rounds_for_store(op: ir.Operation) -> bool:
    """Whether an op is a rounding for a value to be stored in fewer bits; one that is to be seen everywhere has a rounding mode."""
    return op.name == "arith.truncf" and "roundingmode" not in op.attributes


def is_undone(op: ir.Operation, extension: ir.Operation) -> bool:
    """Whether `op` rounds a number that `extension`, which reads what it gives, makes as wide again, and may have as it was before."""
    if STORED in extension.attributes or not rounds_for_store(op) or op.operands[0].type != extension.results[0].type:
        return False
    return not (CAST in op.attributes and CAST in extension.attributes)


def is_narrow(type_: ir.Type) -> bool:
    """Whether `type_` is a float of 16 bits or fewer."""
    return isinstance(type_, ir.FloatType) and type_.width <= 16


def to_nearest_even() -> ir.Attribute:
    """The `roundingmode` of an `arith.truncf` that no pass removes."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)


def rounding_mode(kept: bool) -> dict[str, ir.Attribute]:
    """The attributes of an `arith.truncf`; `kept`: no pass removes its rounding."""
    return {"roundingmode": to_nearest_even()} if kept else {}


def carried(element: ir.Type) -> ir.Type:
    """The type of a scalar of `element` in a register: signless; of a complex number, which is only moved, its bits."""
    if isinstance(element, ir.ComplexType):
        return ir.IntegerType.get_signless(8 * byte_width(element))
    return scalar_type(element)


def symbols_among(types: Iterable[ir.Type]) -> int:
    """How many symbols a function of arguments of these types has: the leading ones of type `index`."""
    return sum(1 for _ in takewhile(lambda type_: isinstance(type_, ir.IndexType), types))
