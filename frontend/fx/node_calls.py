"""New calls in a graph, with what other nodes know of themselves; and whether a call gives what another gave."""

from typing import Any

import torch
from torch.fx import Graph, Node


def call_like(graph: Graph, like: Node, target: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Node:
    """A call at the insertion point that stands for the same line of the user's as `like`, a tensor."""
    made = graph.call_function(target, args, kwargs)
    values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
    with like.meta["val"].fake_mode:
        made.meta = {**like.meta, "val": target(*values, **kwargs)}
    made.meta.pop("tensor_meta", None)
    return made


def lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same sizes, strides and offset, by their numbers or their symbols' names."""
    return [*map(str, (*a.shape, *a.stride(), a.storage_offset()))] == [
        *map(str, (*b.shape, *b.stride(), b.storage_offset()))
    ]
