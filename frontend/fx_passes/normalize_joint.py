"""The joint graph as the partitioner knows it, before it is split into forward and backward: what would be saved for nothing goes.

Copies that nobody could tell from what they copy: a dropout that drops nothing leaves a clone, and a cast to the dtype of a weight one back
under autocast. The partitioner takes copy and original for two tensors: where an activation's backward needs one, and the product after it the
other, both would be saved.

Operands that an operator does not look at: what is saved for a backward must not change until then. A batch norm in training writes its running
statistics at each call, and its backward has them among its operands only for evaluation.

A tensor beside itself: the partitioner saves a `cat`, and computes views and a clone again.
"""

import torch
from torch.fx import Graph, Node

from ..fx.graph_ends import inputs_of
from ..fx.node_calls import call_like, lie_alike
from ..fx.storages import storage_of

aten = torch.ops.aten

# The dtypes that hold every value of another.
WIDER = {
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}
BACKWARD = aten.native_batch_norm_backward.default
STATISTICS, TRAINING = (3, 4), 7  # the operands: running mean and variance, and whether they are of no use


def drop_copies(graph: Graph) -> int:
    """Replaces each clone, and each cast to a wider dtype and back, of the same sizes, strides and offset by what it copies. Returns how many.

    Kept are copies of, or in, the memory of an input or an output of the graph: whether those share memory is for the user to see, and an input
    may be written to.
    """
    seen = {storage_of(node) for node in inputs_of(graph)}
    seen |= {storage_of(node) for node in graph.output_node().all_input_nodes} | {None}
    dropped = 0
    for node in list(graph.nodes):
        source = _copied(node)
        if source is None or storage_of(node) in seen or storage_of(source) in seen:
            continue
        if lie_alike(node.meta["val"], source.meta["val"]):
            node.replace_all_uses_with(source)
            graph.erase_node(node)
            dropped += 1
    return dropped


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


def drop_unused_operands(graph: Graph) -> int:
    """Gives None for the running statistics to each backward of a batch norm in training. Returns to how many."""
    norms = [node for node in graph.find_nodes(op="call_function", target=BACKWARD) if node.args[TRAINING]]
    for node in norms:
        for number in STATISTICS:
            node.update_arg(number, None)
    return len(norms)


def expand_repeats(graph: Graph) -> int:
    """Makes each `cat` of one tensor with itself views and a clone, which the partitioner computes again in the backward; a `cat` it saves.

    So is the table of a rotary embedding made. Of static, contiguous tensors. Returns how many it replaced.
    """
    expanded = 0
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
        expanded += 1
    return expanded


def _is_plain(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape) and value.numel() > 0 and value.is_contiguous()
