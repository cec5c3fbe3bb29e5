"""The walk over a module that finds the ops and functions which break the dialect's contract."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ..errors import UserError, UserErrors
from ..ir.functions import STORAGES, functions, is_extern
from ..ir.locations import source_of
from ..ir.regions import ops_named
from ..ir.types import symbols_among
from ..mlir import ir
from . import attributes, calls, divisors, indices, layouts, numbers, operators
from .callers import check_callers
from .recursion import recursions
from .structure import check_declaration, check_structure

Check = Callable[[ir.Operation], None]

# op -> what is checked of it
CHECKS: dict[str, tuple[Check, ...]] = {"torch.operator": (operators.check_call,)}
for names, check in (
    (attributes.HOLDERS, attributes.check_attributes),
    (divisors.MAPS, divisors.check_divisors),  # before what computes with the maps
    (indices.INDEXED, indices.check_indices),
    (indices.SLICED, indices.check_slice),
    (layouts.MADE, layouts.check_layout),  # after what a view's map divides by
    (("bascule.view",), indices.check_view),
    (("memref.alloc",), numbers.check_over),
    (("memref.alloc",), numbers.check_arena),
    (("builtin.unrealized_conversion_cast",), numbers.check_cast),
    (("bascule.compute", "bascule.scan", "bascule.scatter"), numbers.check_together),
):
    for name in names:
        CHECKS[name] = (*CHECKS.get(name, ()), check)

APPLY, CALL = "affine.apply", "func.call"
_LOOKED_AT = frozenset((*CHECKS, CALL))


def check_contract(module: ir.Module) -> None:
    """Raises `UserErrors`, of all ops and functions that break the dialect's contract. Takes time in proportion to the ops."""
    with module.context:  # in which maps are evaluated
        faults = list(_faults(module))
    if faults:
        raise UserErrors(faults)


def _faults(module: ir.Module) -> Iterator[UserError]:
    """In order, of an op or a function the first; none below an affine.apply that divides by zero, whose map others compute with."""
    made: dict[str, list[ir.Operation]] = {}
    known = functions(module)
    callees = {function.attributes["sym_name"].value: function for function in known}
    for function in known:
        checks = (
            (operators.check_function,) if is_extern(function) else (_check_storages, check_structure, check_callers)
        )
        kinds = (attributes.check_attributes, attributes.check_arguments)
        told = (*kinds, divisors.check_sizes, layouts.check_reach, check_declaration)
        yield from _refused((*told, *checks), function)
        if is_extern(function):
            continue
        own = made.setdefault(function.attributes["sym_name"].value, [])
        for name, op in ops_named(function, _LOOKED_AT):
            for fault in _refused(CHECKS.get(name, ()), op):
                yield fault
                if name == APPLY:
                    return
            if name == CALL:
                own.append(op)
                yield from _refused((partial(calls.check_call, callees=callees),), op)
    yield from recursions(made)


def _refused(checks: Iterable[Check], op: ir.Operation) -> Iterator[UserError]:
    """Of `checks` the first that refuses `op`: later ones take for granted what it looks at."""
    try:
        for check in checks:
            check(op)
    except UserError as error:
        yield error


def _check_storages(function: ir.Operation) -> None:
    if STORAGES not in function.attributes:
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
