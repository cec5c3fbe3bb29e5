"""Numbers that an op has as attributes name what there is: the argument in whose memory an allocation lies, the dims of a compute."""

from math import prod

from ..errors import UserError
from ..ir.attribute_names import ARENA, TOGETHER_DIMS
from ..ir.functions import OVER
from ..ir.locations import source_of
from ..ir.types import byte_width, scalar_type
from ..mlir import ir


def check_over(op: ir.Operation) -> None:
    """Refuses an allocation that is to lie in the memory of what is no argument of its function, or too small for it."""
    if OVER not in op.attributes:
        return
    number, block, made = op.attributes[OVER].value, op.block, op.results[0].type
    arguments = list(block.arguments)
    type_ = arguments[number].type if 0 <= number < len(arguments) else None
    if not isinstance(type_, ir.MemRefType):
        complaint = f"is {number}, which is no buffer among the function's {len(arguments)} arguments"
    elif (bytes_ := _bytes(type_)) is not None and (needed := _bytes(made) or 0) > bytes_:
        complaint = f"is {number}, an argument of {bytes_} bytes: {needed} are needed"
    else:
        return
    raise UserError(f"'{OVER}' of '{op.name}' {complaint}", location=source_of(op.location))


def _bytes(type_: ir.MemRefType) -> int | None:
    """Those of all elements, where the sizes are known."""
    return prod(type_.shape) * byte_width(type_.element_type) if type_.has_static_shape else None


def check_arena(op: ir.Operation) -> None:
    """Refuses an allocation of anything but bytes where intermediates are said to lie."""
    if ARENA in op.attributes and not str(op.results[0].type).endswith("xi8>"):
        told = f"'{ARENA}' of '{op.name}' is on {op.results[0].type}: an arena is bytes, memref<?xi8>"
        raise UserError(told, location=source_of(op.location))


def check_cast(op: ir.Operation) -> None:
    """Refuses a cast in a body that is no change of sign: it is there for elements of unsigned integers, and moves no bits."""
    around = op.parent
    types = [value.type for value in (*op.operands, *op.results)]
    if around is None or not around.operation.name.startswith("bascule.") or not all(map(_is_number, types)):
        return
    if len(types) != 2 or scalar_type(types[0]) != scalar_type(types[1]):
        told = f"'{op.name}' makes {', '.join(map(str, types[1:]))} of {types[0]}, which is no change of sign"
        raise UserError(told, location=source_of(op.location), hint="arith has the casts that compute")


def _is_number(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType | ir.FloatType | ir.IndexType)


def check_together(op: ir.Operation) -> None:
    """Refuses dims for another compute's that are not all of the op's own."""
    if TOGETHER_DIMS not in op.attributes or not len(op.results):
        return
    dims, rank = list(op.attributes[TOGETHER_DIMS]), op.results[0].type.rank
    if sorted(dims) != [*range(rank)]:
        told = f"'{TOGETHER_DIMS}' of '{op.name}' is {dims}: its {rank} dims are needed, each once"
        raise UserError(told, location=source_of(op.location))
