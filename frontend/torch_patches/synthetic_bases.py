"""Outputs that are views of inputs over one memory, made from where they lie.

Of inputs that share memory, one of them written, AOTAutograd takes the whole memory for one input, a synthetic base. Outputs that are views
of such inputs keep the views noted for the input, which it would make of the base: other elements, or an error (seen in 2.11 to 2.13). Inside
`synthetic_bases_right` it makes the input of the base first, so that what was detached is no view for autograd, as in eager; or, where sizes are
symbols, the output by sizes, strides and offset, as where nothing was noted.

The function that describes a graph over synthetic bases is private to PyTorch.
"""

from copy import copy
from dataclasses import replace
from typing import Any

from torch import Tensor

from bascule.compat.graphs.aot_autograd import ViewAndMutationMeta, runtime_wrappers, strided_view

from .patch import Patch

_theirs = runtime_wrappers.create_synthetic_base_metadata


def _described(
    m: ViewAndMutationMeta, bases: list[Any], outer_args: list[Any], inner_args: list[Any], *args: Any
) -> tuple[ViewAndMutationMeta, Any]:
    """`bases`: of each input its number among the inputs with bases, `inner_args`, or that of a base with a view to make of it."""
    described, rest = _theirs(m, bases, outer_args, inner_args, *args)
    for number, told in enumerate(m.output_info):
        if told.base_idx is not None and isinstance(bases[told.base_idx], tuple):
            base, x = bases[told.base_idx]
            views = _of_base(told.view_meta_sequence, inner_args[base], x)
            described.output_info[number] = replace(described.output_info[number], view_meta_sequence=views)
    return described, rest


def _of_base(views: Any, base: Tensor, x: Tensor) -> Any:
    """The `views` noted for the input `x`, from its base on; None where there are none, symbols, or another dtype between."""
    places = x.size(), x.stride(), x.storage_offset()
    if (
        views is None
        or base.dtype != x.dtype
        or not all(isinstance(n, int) for n in (*places[0], *places[1], places[2]))
    ):
        return None
    result = copy(views)
    result.sequence = [strided_view(*places), *views.sequence]
    return result


def _put(function: Any) -> None:
    runtime_wrappers.create_synthetic_base_metadata = function


synthetic_bases_right = Patch(lambda: _put(_described), lambda: _put(_theirs))
