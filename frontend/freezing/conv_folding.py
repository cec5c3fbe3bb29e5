"""Scales and shifts after a convolution whose weights are held become part of these, as a batch norm's do in inference."""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from .weight_inputs import constant, held_tensor

aten = torch.ops.aten
_DTYPES = (torch.float32, torch.float64)  # narrower weights would be rounded once more
_SCALES: dict[object, Callable] = {aten.mul.Tensor: operator.mul, aten.div.Tensor: operator.truediv}
_SHIFTS: dict[object, Callable] = {aten.add.Tensor: operator.add, aten.sub.Tensor: operator.sub}


@dataclass
class _Affine:
    """An affine function after a convolution: `scale * x + shift`, f64, one number a channel or one for all."""

    scale: torch.Tensor
    shift: torch.Tensor

    def then(self, target: object, by: torch.Tensor) -> None:
        if target in _SHIFTS:
            self.shift = _SHIFTS[target](self.shift, by)
        else:
            self.scale, self.shift = _SCALES[target](self.scale, by), _SCALES[target](self.shift, by)


def fold_into_convolutions(gm: GraphModule) -> int:
    """Replaces chains of `add`, `sub`, `mul` and `div` by numbers, or by held tensors of one number a channel, that follow a convolution.

    Returns how many operators it removed.

    Each is the only reader of what is before it. The new weights are computed in f64 and rounded once. Transposed convolutions, and those of
    other dtypes than f32 and f64, stay as they are.
    """
    folded = 0
    for node in list(gm.graph.find_nodes(op="call_function", target=aten.convolution.default)):
        weight, bias = held_tensor(gm, node.args[1]), held_tensor(gm, node.args[2])
        if weight is None or weight.dtype not in _DTYPES or node.args[6] or (node.args[2] is None) != (bias is None):
            continue
        affine = _Affine(weight.new_ones(1, dtype=torch.float64), weight.new_zeros(1, dtype=torch.float64))
        last, count = node, 0
        while (step := _step(gm, last, node)) is not None:
            affine.then(*step)
            last, count = next(iter(last.users)), count + 1
        if count:
            _replace(gm, node, last, weight, bias, affine)
            folded += count
    gm.graph.eliminate_dead_code()
    return folded


def _step(gm: GraphModule, last: Node, convolution: Node) -> tuple[object, torch.Tensor] | None:
    """The only reader of `last`, if it is a scale or a shift: its operator, and by what, f64."""
    if len(last.users) != 1:
        return None
    (user,) = last.users
    if user.op != "call_function" or user.target not in _SCALES | _SHIFTS or user.kwargs or len(user.args) != 2:
        return None
    x, by = user.args
    if x is not last:
        if user.target not in (aten.add.Tensor, aten.mul.Tensor):
            return None
        x, by = by, x
    made, like = user.meta["val"], convolution.meta["val"]
    if (made.dtype, made.shape, made.stride()) != (like.dtype, like.shape, like.stride()):
        return None
    if isinstance(by, int | float):
        return user.target, torch.tensor([by], dtype=torch.float64, device=like.device)
    tensor = held_tensor(gm, by)
    if tensor is None or tensor.dtype != like.dtype or not _a_channel(tensor, like):
        return None
    return user.target, tensor.double().flatten()


def _a_channel(tensor: torch.Tensor, like: torch.Tensor) -> bool:
    """Whether `tensor`, broadcast against `like` (N, C, ...), has one number for all or one a channel."""
    sizes = [1] * (like.dim() - tensor.dim()) + list(tensor.shape)
    return len(sizes) == like.dim() and all(n == 1 or (d == 1 and n == like.shape[1]) for d, n in enumerate(sizes))


def _replace(
    gm: GraphModule, node: Node, last: Node, weight: torch.Tensor, bias: torch.Tensor | None, affine: _Affine
) -> None:
    channels = weight.shape[0]
    scale, shift = (x.expand(channels) for x in (affine.scale, affine.shift))
    new_weight = torch.empty_like(weight)
    new_weight.copy_(weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1)))
    new_bias = shift if bias is None else bias.double() * scale + shift
    weight_meta = node.args[1].meta
    fake = weight_meta["val"].new_empty(channels)
    with gm.graph.inserting_before(node):
        held = constant(gm, f"{node.name}_weight", new_weight, weight_meta)
        added = constant(gm, f"{node.name}_bias", new_bias.to(weight.dtype), {**weight_meta, "val": fake})
        made = gm.graph.call_function(node.target, (node.args[0], held, added, *node.args[3:]), node.kwargs)
    made.meta = dict(node.meta)
    last.replace_all_uses_with(made)
