"""Outputs that are views of inputs which the graph writes, made again by the views that were noted.

AOTAutograd makes such an output of the input by the views noted for it, but where these have symbols by the place of what the graph returns: a
view of a new value, which begins elsewhere than an input from within its storage, and has no gaps (seen in 2.13). Inside
`views_of_written_inputs_right` the views of such an input are noted with numbers: symbols in them are settled, by a guard.

How outputs are described is private to PyTorch.
"""

from typing import Any
from weakref import WeakValueDictionary

import torch

from bascule.compat.graphs.aot_autograd import collect_metadata_analysis
from bascule.compat.tensors.functional_tensors import FunctionalTensor, value_of

from ..fx.storages import storage
from .patch import attribute, together
from .written_views import places

_to_fun = collect_metadata_analysis.to_fun
_sequence = collect_metadata_analysis.ViewMetaSequence
_inputs: WeakValueDictionary[int | None, FunctionalTensor] = WeakValueDictionary()  # by their storages


def _input(x: Any) -> Any:
    made = _to_fun(x)
    if isinstance(made, FunctionalTensor):
        _inputs[storage(made)] = made
    return made


def _noted(x: FunctionalTensor) -> Any:
    views, base = _sequence(x), _inputs.get(storage(x))
    if base is None or not any(view.has_symbolic_inputs for view in views.sequence):
        return views
    if places(value_of(base)) != places(base):
        # Of what tells a view the first is whether there are symbols in it.
        views.sequence = [type(view)((False, *_settled(view.as_tuple()[1:]))) for view in views.sequence]
    return views


def _settled(told: Any) -> Any:
    """The description of a view, with numbers for symbols."""
    if isinstance(told, tuple | list):
        return type(told)(map(_settled, told))
    return int(told) if isinstance(told, torch.SymInt) else told


views_of_written_inputs_right = together(
    attribute(collect_metadata_analysis, "to_fun", _to_fun, _input),
    attribute(collect_metadata_analysis, "ViewMetaSequence", _sequence, _noted),
)
