"""The text of a module in the form that is asked for."""

from collections.abc import Mapping
from typing import Any

from ..mlir import ir
from .pretty import pretty

PRETTY = "pretty"  # among the parameters of the printer: the form of `pretty.py`


def printed(module: ir.Module, printing: Mapping[str, Any], *, bare: bool = False) -> str:
    """`printing` are parameters of the bindings' printer, and PRETTY. Locations are not in the pretty form. `bare`: what is in the
    module, without it."""
    parameters = {name: value for name, value in printing.items() if name != PRETTY}
    if bare:
        return "\n".join(op.operation.get_asm(**parameters) for op in module.body.operations)
    return pretty(module, **parameters) if printing.get(PRETTY) else module.operation.get_asm(**parameters)
