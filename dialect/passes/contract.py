"""Checks that the ops' own verifiers do not make: views and constant indices out of range, functions that call themselves, ATen operators
that PyTorch does not have, a `bascule.storages` of another length than there are tensors."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..analysis.affine.bounds import outside
from ..errors import UserError
from ..ir.functions import EXTERN, STORAGES, functions, is_extern
from ..ir.locations import source_of
from ..ir.regions import ops_in
from ..ir.types import symbols_among
from ..mlir import ir

_READS = {"tensor.extract": 1, "memref.load": 1, "bascule.store": 2}  # the number of the first index among the operands


def check_contract(module: ir.Module) -> None:
    """Raises `UserError` at the first op or function that breaks the dialect's contract."""
    calls: dict[str, list[ir.Operation]] = {}
    for function in functions(module):
        if is_extern(function):
            _check_operator(function)
            continue
        _check_storages(function)
        found = calls.setdefault(function.attributes["sym_name"].value, [])
        for op in ops_in(function):
            if op.name in _READS:
                _check_indices(op, _READS[op.name])
            elif op.name == "bascule.view":
                _check_view(op)
            elif op.name == "func.call":
                found.append(op)
    _check_recursion(calls)


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


def _check_view(op: ir.Operation) -> None:
    """Refuses a view of static sizes that has an element beyond its source."""
    map_, source, result = op.attributes["map"].value, op.operands[0].type, op.results[0].type
    if map_.n_symbols or not (source.has_static_shape and result.has_static_shape):
        return
    found = outside(map_, result.shape, source.shape)
    if found is not None:
        point, dim, value = found
        raise UserError(
            f"'{op.name}' has index {value} of dimension {dim}, of {source.shape[dim]} elements, at {list(point)}",
            location=source_of(op.location),
        )


def _check_indices(op: ir.Operation, first: int) -> None:
    """Refuses a constant index beyond a static size, where the op runs for certain."""
    type_ = op.operands[first - 1].type
    for dim, index in enumerate(list(op.operands)[first:]):
        constant = index.owner
        if isinstance(constant, ir.Block) or constant.operation.name != "arith.constant" or type_.is_dynamic_dim(dim):
            continue
        value, size = constant.operation.attributes["value"].value, type_.get_dim_size(dim)
        if not 0 <= value < size and _runs(op):
            raise UserError(
                f"'{op.name}' has the index {value} in dimension {dim} of {type_}, which has {size} elements there",
                location=source_of(op.location),
            )


def _runs(op: ir.Operation) -> bool:
    """Whether there is a point at which `op` runs: no condition, and no range that is, or may be, empty, is around it."""
    parent = op.parent
    while parent is not None and parent.operation.name != "func.func":
        around = parent.operation
        if not around.name.startswith("bascule."):
            return False
        ranges = around.attributes["ranges"].value.results
        if not all(isinstance(size, ir.AffineConstantExpr) and size.value > 0 for size in ranges):
            return False
        parent = around.parent
    return True


def _check_recursion(calls: dict[str, list[ir.Operation]]) -> None:
    """Refuses a function that calls itself, by way of others too: a graph is a program of launches and ends."""
    done = set[str]()

    def visit(name: str, above: tuple[str, ...]) -> None:
        for call in calls.get(name, ()) if name not in done else ():
            callee = call.attributes["callee"].value
            if callee in (*above, name):
                way = " -> ".join(f"@{each}" for each in (*above, name, callee))
                raise UserError(f"a function calls itself: {way}", location=source_of(call.location))
            visit(callee, (*above, name))
        done.add(name)

    for name in calls:
        visit(name, ())


def _check_operator(function: ir.Operation) -> None:
    operator = function.attributes[EXTERN].value
    if operator.startswith("aten.") and operator not in _in_schemas() and not _in_torch(operator):
        raise UserError(
            f"PyTorch has no operator '{operator}', which the ATen function @{function.attributes['sym_name'].value} stands for",
            location=source_of(function.location),
            hint="an operator's name and overload, as in aten.add.Tensor",
        )


@cache
def _in_schemas() -> frozenset[str]:
    """Operators by the file of schemas that PyTorch ships: looking there takes no import of it, which takes a second."""
    spec = find_spec("torchgen")
    folders = spec.submodule_search_locations if spec is not None else None
    for path in (Path(folder) / "packaged/ATen/native/native_functions.yaml" for folder in folders or ()):
        if path.is_file():
            found = re.findall(r"^- func: (\w+)(?:\.(\w+))?\(", path.read_text(), re.MULTILINE)
            return frozenset(f"aten.{name}.{overload or 'default'}" for name, overload in found)
    return frozenset()


def _in_torch(operator: str) -> bool:
    """Whether PyTorch itself has it: some are in no file."""
    found = import_module("torch").ops
    for part in operator.split("."):
        found = getattr(found, part, None)
    return found is not None and operator.count(".") == 2
