"""Bounds of integers that are plain to see in a graph: of places, of ranges, of constants."""

from operator import getitem
from typing import Any

import torch
from torch.fx import Node

from bascule.compat.tensors.fake_tensors import FakeTensor, unset_fake_temporarily

from ..fx.storages import is_view

aten = torch.ops.aten

# Operators beside views whose result has elements of their first operand alone.
_COPIES = (aten.clone.default, aten.repeat.default, aten.flip.default, aten.lift_fresh_copy.default)
_PLACES = {  # operators, with the number of the result that has places along a dimension of the first operand
    aten.argmax.default: None,
    aten.argmin.default: None,
    aten.sort.default: 1,
    aten.sort.stable: 1,
    aten.topk.default: 1,
    aten.max.dim: 1,
    aten.min.dim: 1,
}


def bounds(node: Node) -> tuple[int, int] | None:
    """Numbers between which all elements are."""
    args, target = node.args, node.target
    if node.op == "get_attr":
        return _bounds_of(getattr(node.graph.owning_module, str(target), None))
    if is_view(node) or target in _COPIES:
        return bounds(args[0])  # type: ignore[arg-type]
    if target is torch.ops.prims.iota.default:
        numbers = [args[0], node.kwargs["start"], node.kwargs["step"]]
        if all(isinstance(number, int) for number in numbers):
            count, start, step = numbers  # type: ignore[misc]
            ends = (start, start + max(0, count - 1) * step)  # type: ignore[operator]
            return min(ends), max(ends)
    if target in (aten.arange.default, aten.arange.start, aten.arange.start_step):
        start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if all(isinstance(number, int) for number in (start, end, step)) and step == 1:
            return start, max(start, end - 1)  # type: ignore[operator,type-var,return-value]
    if target is aten.remainder.Scalar and isinstance(args[1], int) and args[1] > 0:
        return 0, args[1] - 1
    source, result = args if target is getitem else (node, None)
    if isinstance(source, Node) and source.target in _PLACES and _PLACES[source.target] == result:  # type: ignore[index]
        sizes = source.args[0].meta["val"].shape
        if all(isinstance(size, int) for size in sizes):
            flat = result is None and (len(source.args) < 2 or source.args[1] is None)
            return 0, (sizes.numel() if flat else max(sizes, default=1)) - 1
    return None


def _bounds_of(constant: Any) -> tuple[int, int] | None:
    if not isinstance(constant, torch.Tensor) or isinstance(constant, FakeTensor) or not constant.numel():
        return None
    with unset_fake_temporarily():
        return int(constant.min()), int(constant.max())
