"""Outputs that are views of inputs over one memory, made from where they lie.

Of inputs that share memory, one of them written, AOTAutograd takes the whole memory for one input, a synthetic base. Outputs that are views
of such inputs keep the views noted for the input, which it would make of the base: other elements, or an error (seen in 2.11 to 2.13). Inside
`synthetic_bases_right` it makes them by sizes, strides and offset, as where nothing was noted.

The function that describes a graph over synthetic bases is private to PyTorch.
"""

from dataclasses import replace
from typing import Any

from bascule.compat.graphs.aot_autograd import ViewAndMutationMeta, runtime_wrappers

from .patch import Patch

_theirs = runtime_wrappers.create_synthetic_base_metadata


def _described(m: ViewAndMutationMeta, bases: list[Any], *args: Any, **kwargs: Any) -> tuple[ViewAndMutationMeta, Any]:
    """`bases`: of each input its number among the inputs with bases, or that of a base with a view to make of it."""
    described, rest = _theirs(m, bases, *args, **kwargs)
    for number, told in enumerate(m.output_info):
        if told.base_idx is not None and isinstance(bases[told.base_idx], tuple):
            described.output_info[number] = replace(described.output_info[number], view_meta_sequence=None)
    return described, rest


def _put(function: Any) -> None:
    runtime_wrappers.create_synthetic_base_metadata = function


synthetic_bases_right = Patch(lambda: _put(_described), lambda: _put(_theirs))
