"""Recurrent networks in the layers that PyTorch traces them as.

Layers of an LSTM that is trained are taken apart, whichever of their tensors wants a gradient.
On a CPU PyTorch traces layers as oneDNN's operator for inference wherever the first input wants none (seen in 2.13): weights
would have no gradients, and compiled graphs of training fail. Inside `trained_lstms_apart` the choice looks at hidden states and weights too.
What is taken apart gives last states of the rank of the first ones: in 2.11 those of more than one sequence have a dimension too many.

Between the layers of any such network numbers are dropped as eager drops them: inside `layers_dropped_out`. PyTorch's own trace drops none (seen
in 2.14).

How PyTorch traces them is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.decompositions import decomposition_tables

from ..patch import attribute, together

_DECOMPOSITIONS = decomposition_tables.decompositions
_CHOICE = "select_one_layer_lstm_function"
_theirs: Callable[..., Any] | None = vars(_DECOMPOSITIONS).get(_CHOICE)
_apart: Callable[..., Any] | None = vars(_DECOMPOSITIONS).get("one_layer_lstm")
_LAYERS = "_rnn_helper"
_stacked: Callable[..., Any] | None = vars(_DECOMPOSITIONS).get(_LAYERS)


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


def _dropping(layer: Callable[..., Any], p: float) -> Callable[..., Any]:
    """`layer`, which is called for each in turn, forwards and then maybe in reverse. All but the first take what is left of their input, the
    same in both directions."""
    taken: list[Tensor] = []  # by the layer at hand

    def dropping(x: Tensor, *rest: Any, reverse: bool = False) -> Any:
        if not reverse:
            taken[:] = [torch.dropout(x, p, train=True) if taken else x]
        return layer(taken[0], *rest, reverse=reverse)

    return dropping


def _dropped_out(
    x: Tensor, hidden: Any, weights: Any, biases: bool, layers: int, p: float, train: bool, *others: Any
) -> Any:
    assert _stacked is not None  # else it is not put there
    *ways, layer = others
    return _stacked(
        x, hidden, weights, biases, layers, 0.0, train, *ways, _dropping(layer, p) if train and p else layer
    )


layers_dropped_out = attribute(_DECOMPOSITIONS, _LAYERS, _stacked, _dropped_out)
