"""ATen operators: PyTorch has those that functions stand for, and those that the torch stage calls by name."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..errors import UserError
from ..ir.functions import EXTERN
from ..ir.locations import source_of
from ..mlir import ir

HINT = "an operator's name and overload, as in aten.add.Tensor"


def check_function(function: ir.Operation) -> None:
    """Refuses an ATen function that stands for none. What it is to be is for `ir.signatures` to check."""
    operator = function.attributes[EXTERN]
    if isinstance(operator, ir.StringAttr) and not _known(operator.value):
        raise UserError(
            f"PyTorch has no operator '{operator.value}', which the ATen function @{function.attributes['sym_name'].value} stands for",
            location=source_of(function.location),
            hint=HINT,
        )


def check_call(op: ir.Operation) -> None:
    """Refuses a `torch.operator` of a name that no operator has."""
    name = op.attributes["name"].value.removeprefix("torch.")
    operator = name if name.count(".") >= 2 else f"{name}.default"
    if not _known(operator):
        raise UserError(
            f"PyTorch has no operator '{operator}', which '{op.name}' calls",
            location=source_of(op.location),
            hint=HINT,
        )


def _known(operator: str) -> bool:
    """Whether PyTorch has it; those of other namespaces may be registered later."""
    return not operator.startswith("aten.") or operator in _in_schemas() or _in_torch(operator)


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


@cache
def _in_torch(operator: str) -> bool:
    """Whether PyTorch itself has it: some are in no file."""
    found = import_module("torch").ops
    for part in operator.split("."):
        found = getattr(found, part, None)
    return found is not None and operator.count(".") == 2
