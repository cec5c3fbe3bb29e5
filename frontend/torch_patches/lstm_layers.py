"""Layers of an LSTM that is trained are taken apart, whichever of their tensors wants a gradient.

On a CPU PyTorch traces layers as oneDNN's operator for inference wherever the first input wants none (seen in 2.13): weights
would have no gradients, and compiled graphs of training fail. Inside `trained_lstms_apart` the choice looks at hidden states and weights too.
What is taken apart gives last states of the rank of the first ones: in 2.11 those of more than one sequence have a dimension too many.

How PyTorch chooses is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.decompositions import decomposition_tables

from .patch import attribute, together

_DECOMPOSITIONS = decomposition_tables.decompositions
_CHOICE = "select_one_layer_lstm_function"
_theirs: Callable[..., Any] | None = vars(_DECOMPOSITIONS).get(_CHOICE)
_apart: Callable[..., Any] | None = vars(_DECOMPOSITIONS).get("one_layer_lstm")


def _layer(x: Tensor, hidden: Sequence[Tensor], *others: Any, **named: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    assert _apart is not None  # else it is not put there
    out, last = _apart(x, hidden, *others, **named)
    return out, tuple(state.squeeze(0) if state.dim() > first.dim() else state for state, first in zip(last, hidden))


def _chosen(x: Tensor, hidden: Sequence[Tensor], layers: Sequence[Sequence[Tensor]]) -> Callable[..., Any]:
    assert _theirs is not None  # else it is not put there
    tensors = (x, *hidden, *(weight for layer in layers for weight in layer))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _layer
    return _theirs(x, hidden, layers)


trained_lstms_apart = together(
    attribute(_DECOMPOSITIONS, _CHOICE, _theirs if _apart else None, _chosen),
    attribute(_DECOMPOSITIONS, "one_layer_lstm", _apart, _layer),
)
