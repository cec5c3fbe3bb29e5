"""The check of what linear algebra computed has an effect: it raises, and stays in the graph.

PyTorch registers that itself as of 2.13; in 2.11 the check returns nothing and is dropped as dead code, so that a singular matrix raises no
error. Inside `checks_kept` the effect is registered.

Effects of operators are private to PyTorch. Checked on torch 2.11 to 2.14.
"""

from typing import Any

import torch

from ..fx.operator_effects import register_ordered, registered_effect
from .patch import Patch

aten = torch.ops.aten
_CHECK = aten._linalg_check_errors.default
_registered: list[Any] = []  # handles, by which a registration is taken back


def _make() -> None:
    if registered_effect(_CHECK) is None:
        _registered.append(register_ordered(_CHECK))


def _undo() -> None:
    while _registered:
        _registered.pop().destroy()


checks_kept = Patch(_make, _undo)
