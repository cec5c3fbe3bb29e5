"""The walk over a module that finds the first op or function which breaks the dialect's contract."""

from collections.abc import Callable

from ..errors import UserError
from ..ir.functions import STORAGES, functions, is_extern
from ..ir.locations import source_of
from ..ir.regions import ops_named
from ..ir.types import symbols_among
from ..mlir import ir
from . import divisors, indices, operators
from .recursion import check_recursion

Check = Callable[[ir.Operation], None]

# op -> what is checked of it
CHECKS: dict[str, tuple[Check, ...]] = {"torch.operator": (operators.check_call,)}
for names, check in (
    (divisors.MAPS, divisors.check_divisors),  # before what computes with the maps
    (indices.INDEXED, indices.check_indices),
    (indices.SLICED, indices.check_slice),
    (("bascule.view",), indices.check_view),
):
    for name in names:
        CHECKS[name] = (*CHECKS.get(name, ()), check)

CALL = "func.call"
_LOOKED_AT = frozenset((*CHECKS, CALL))


def check_contract(module: ir.Module) -> None:
    """Raises `UserError` at the first op or function that breaks the dialect's contract. Takes time in proportion to the ops."""
    calls: dict[str, list[ir.Operation]] = {}
    for function in functions(module):
        divisors.check_sizes(function)
        if is_extern(function):
            operators.check_function(function)
            continue
        _check_storages(function)
        found = calls.setdefault(function.attributes["sym_name"].value, [])
        for name, op in ops_named(function, _LOOKED_AT):
            for each in CHECKS.get(name, ()):
                each(op)
            if name == CALL:
                found.append(op)
    check_recursion(calls)


def _check_storages(function: ir.Operation) -> None:
    if STORAGES not in function.attributes or not isinstance(function.attributes[STORAGES], ir.DenseI64ArrayAttr):
        return
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    found, tensors = (
        len(function.attributes[STORAGES]),
        len(type_.inputs) - symbols_among(type_.inputs) + len(type_.results),
    )
    if found != tensors:
        raise UserError(
            f"'{STORAGES}' of @{function.attributes['sym_name'].value} has {found} numbers: {tensors} are needed",
            location=source_of(function.location),
            hint="one for each tensor argument, then one for each result",
        )
