"""The operations of `arith` and `math`: the reference interpreter's, element by element of a tile."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.interpreter.scalars import DIVISIONS, SCALARS
from bascule.dialect.mlir import ir

from ..values.builder import element


def scalar(op: ir.Operation, name: str, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The operation `name` of `arith` or `math`, element by element. Lanes that divide by zero hold junk, as on a GPU."""
    seen: Any = SimpleNamespace(
        results=[SimpleNamespace(type=element(result.type)) for result in op.results], attributes=op.attributes
    )
    if name in DIVISIONS:
        x, y = operands
        result = DIVISIONS[name][1](seen, x, torch.where(y == 0, 1, y))
    elif name in SCALARS:
        result = SCALARS[name](seen, *operands)
    else:
        raise error(op, "is not known to the interpreter")
    return list(result) if isinstance(result, tuple) else [result]
