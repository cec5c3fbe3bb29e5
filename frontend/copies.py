"""Copies that nobody could tell from what they copy, taken out of the joint graph before it is split into forward and backward.

A dropout that drops nothing leaves a clone. The partitioner takes clone and original for two tensors: where an activation's backward needs one,
and the product after it the other, both would be saved.
"""

import torch
from torch.fx import Graph

from .equal_nodes import storage_of

aten = torch.ops.aten


def drop_copies(graph: Graph) -> None:
    """Replaces each clone of the same sizes, strides and offset by what it copies.

    Kept are clones of, or in, the memory of an input or an output of the graph: whether those share memory is for the user to see, and an input
    may be written to.
    """
    seen = {storage_of(node) for node in graph.nodes if node.op == "placeholder"}
    seen |= {storage_of(node) for node in graph.output_node().all_input_nodes} | {None}
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        source = node.args[0]
        if storage_of(node) in seen or storage_of(source) in seen or not _alike(node.meta["val"], source.meta["val"]):
            continue
        node.replace_all_uses_with(source)
        graph.erase_node(node)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same sizes, strides and offset, by their numbers or their symbols' names."""
    return [*map(str, (*a.shape, *a.stride(), a.storage_offset()))] == [
        *map(str, (*b.shape, *b.stride(), b.storage_offset()))
    ]
