"""Copies that nobody could tell from what they copy, taken out of the joint graph before it is split into forward and backward.

A dropout that drops nothing leaves a clone, and a cast to the dtype of a weight one back under autocast. The partitioner takes copy and original
for two tensors: where an activation's backward needs one, and the product after it the other, both would be saved.
"""

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import lie_alike
from ..fx.storages import storage_of

aten = torch.ops.aten

# The dtypes that hold every value of another.
WIDER = {
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}


def drop_copies(graph: Graph) -> None:
    """Replaces each clone, and each cast to a wider dtype and back, of the same sizes, strides and offset by what it copies.

    Kept are copies of, or in, the memory of an input or an output of the graph: whether those share memory is for the user to see, and an input
    may be written to.
    """
    seen = {storage_of(node) for node in graph.nodes if node.op == "placeholder"}
    seen |= {storage_of(node) for node in graph.output_node().all_input_nodes} | {None}
    for node in list(graph.nodes):
        source = _copied(node)
        if source is None or storage_of(node) in seen or storage_of(source) in seen:
            continue
        if lie_alike(node.meta["val"], source.meta["val"]):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _copied(node: Node) -> Node | None:
    """The node whose elements `node` has: of a clone its operand, of a cast there and back what was cast."""
    if node.op != "call_function":
        return None
    if node.target is aten.clone.default:
        return node.args[0]
    if not _is_cast(node):
        return None
    wide = node.args[0]
    if not isinstance(wide, Node) or not _is_cast(wide):
        return None
    source = wide.args[0]
    if not isinstance(source, Node):
        return None
    own, between = source.meta["val"].dtype, wide.meta["val"].dtype
    return source if node.meta["val"].dtype == own and between in WIDER.get(own, ()) else None


def _is_cast(node: Node) -> bool:
    """Whether a node changes the dtype of a tensor and nothing else."""
    return node.op == "call_function" and node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}
