"""ATen operators: PyTorch has those that functions stand for, and those that the torch stage calls by name."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..errors import UserError
from ..ir.functions import ARGUMENTS, EXTERN, MUTATES, OUT
from ..ir.locations import source_of
from ..mlir import ir

HINT = "an operator's name and overload, as in aten.add.Tensor"


def check_function(function: ir.Operation) -> None:
    """Refuses an ATen function that stands for none. What it is to be is for `ir.signatures` to check."""
    operator = function.attributes[EXTERN].value
    for named in (operator, function.attributes[OUT].value if OUT in function.attributes else operator):
        if not _known(named):
            raise UserError(
                f"PyTorch has no operator '{named}', which the ATen function @{function.attributes['sym_name'].value} stands for",
                location=source_of(function.location),
                hint=HINT,
            )
    known = _in_schemas().get(operator)
    if known is None or ARGUMENTS not in function.attributes:
        return
    given, most = len(function.attributes[ARGUMENTS]), known.all if MUTATES in function.attributes else known.read
    if not known.least <= given <= most:
        raise UserError(
            f"'{ARGUMENTS}' of @{function.attributes['sym_name'].value} has {given} entries: '{operator}' takes {known.least} to {most}",
            location=source_of(function.location),
            hint="one for each parameter of the operator, in order; the last ones that have defaults may be left out",
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
    if operator.count(".") != 2 or not all(operator.split(".")):
        return False
    return not operator.startswith("aten.") or operator in _in_schemas() or _in_torch(operator)


@dataclass(frozen=True)
class Parameters:
    """How many parameters an operator has; `read`: without those by keyword that it writes, its destinations; `least`: of these, up to the last
    one without a default."""

    all: int
    read: int
    least: int


@cache
def _in_schemas() -> dict[str, Parameters]:
    """Operators by the file of schemas that PyTorch ships: looking there takes no import of it, which takes a second."""
    spec = find_spec("torchgen")
    folders = spec.submodule_search_locations if spec is not None else None
    for path in (Path(folder) / "packaged/ATen/native/native_functions.yaml" for folder in folders or ()):
        if path.is_file():
            found = re.findall(r"^- func: (\w+)(?:\.(\w+))?\((.*)\) *->", path.read_text(), re.MULTILINE)
            return {f"aten.{name}.{overload or 'default'}": _parameters(text) for name, overload, text in found}
    return {}


def _parameters(text: str) -> Parameters:
    """Of the parameters of a schema: `Tensor self, int[2] size=[1, 1], *, Tensor(a!) out`."""
    words = re.sub(r"\[[^\]]*\]|\([^)!]*(!?)[^)]*\)|\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'", r"\1", text).split(",")
    named = [word.strip() for word in words if word.strip()]
    keywords = named[named.index("*") + 1 :] if "*" in named else []
    all_ = [word for word in named if word != "*"]
    read = [word for word in all_ if word not in keywords or "!" not in word.split("=")[0]]
    needed = [number for number, word in enumerate(read, 1) if "=" not in word]
    return Parameters(len(all_), len(read), max(needed, default=0))


@cache
def _in_torch(operator: str) -> bool:
    """Whether PyTorch itself has it: some are in no file."""
    found = import_module("torch").ops
    for part in operator.split("."):
        found = getattr(found, part, None)
    return found is not None and operator.count(".") == 2
