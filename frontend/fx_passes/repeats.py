"""A tensor beside itself in the joint graph, before it is split, spelled as the partitioner knows it."""

import torch
from torch.fx import Graph

from ..fx.node_calls import call_like

aten = torch.ops.aten


def expand_repeats(graph: Graph) -> None:
    """Makes each `cat` of one tensor with itself views and a clone, which the partitioner computes again in the backward; a `cat` it saves.

    So is the table of a rotary embedding made. Of static, contiguous tensors.
    """
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        parts, value = node.args[0], node.meta["val"]
        part = parts[0].meta["val"]
        same = all(one is parts[0] for one in parts) and part.dtype == value.dtype
        if not same or not _is_plain(value) or part.ndim != value.ndim:  # an empty tensor of one dimension is left out
            continue
        dim = (node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) % value.ndim
        sizes = [*part.shape[:dim], len(parts), *part.shape[dim:]]
        last = parts[0]
        with graph.inserting_before(node):
            for operator, *arguments in (
                (aten.unsqueeze.default, dim),
                (aten.expand.default, sizes),
                (aten.clone.default,),
                (aten.view.default, list(value.shape)),
            ):
                options = {"memory_format": torch.contiguous_format} if operator is aten.clone.default else {}
                last = call_like(graph, node, operator, last, *arguments, **options)
        last.meta["val"] = value  # views of the result share its memory
        node.replace_all_uses_with(last)
        graph.erase_node(node)


def _is_plain(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape) and value.numel() > 0 and value.is_contiguous()
