"""Gradients of outputs that lie with gaps or over themselves (`x.unfold`), traced as dense ones.

PyTorch 2.13 and 2.14 lay out what a backward is given as the output lies. A gradient that is laid out over itself loses all but one of the
numbers that share an address; one with gaps is a copy for nothing. Only `expand` is left out there.

How PyTorch keeps the layouts is private to it. Checked on torch 2.11 to 2.14.
"""

from typing import Any

import torch

from bascule.compat.graphs.aot_autograd import MemoryFormatMeta
from bascule.compat.tensors.layouts import is_non_overlapping_and_dense_or_false, suggest_memory_format

from .patch import Patch

_theirs = MemoryFormatMeta.from_tensor


def _from_tensor(t: torch.Tensor, *args: Any, **kwargs: Any) -> MemoryFormatMeta | None:
    found = _theirs(t, *args, **kwargs)
    if found is None or found.stride is None or is_non_overlapping_and_dense_or_false(t):
        return found
    return MemoryFormatMeta(memory_format=suggest_memory_format(t))


def _make() -> None:
    MemoryFormatMeta.from_tensor = staticmethod(_from_tensor)  # type: ignore[method-assign]


def _undo() -> None:
    MemoryFormatMeta.from_tensor = staticmethod(_theirs)  # type: ignore[method-assign]


dense_tangents = Patch(_make, _undo)
