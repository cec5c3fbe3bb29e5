"""Copies of inputs that the forward writes and the backward reads: of what they were before.

PyTorch's partitioner takes an input for one that is the same in the backward. What is computed again from a buffer that the forward has written
since would be of its new numbers.
"""

from collections.abc import Callable, Collection

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils.checkpoint import CheckpointPolicy

from bascule.compat.graphs.partitioners import partitioners
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.node_calls import call_like, lie_alike
from ..fx.storages import storage, storage_of
from .joint_splits import copy_of

aten = torch.ops.aten
Pair = tuple[GraphModule, GraphModule]


def with_inputs_as_given(joint: GraphModule, visible: int, split: Callable[[GraphModule], Pair]) -> Pair:
    """The `split` of `joint` into forward and backward; where that saves an input that the forward writes, the split of one in which a copy
    of the input is read. `visible`: how many outputs of the forward, the first ones, are no saved tensors."""
    written = _written_in(joint.graph)
    if not _reach_backward(joint.graph, written):
        return split(joint)
    original = copy_of(joint)
    pair = split(joint)
    names = {node.name for node in written}
    places = {storage_of(node): node.name for node in inputs_of(pair[0].graph) if node.name in names}
    saved = [storage_of(node) for node in outputs_of(pair[0].graph)[visible:] if isinstance(node, Node)]
    late = {places[storage] for storage in saved if storage in places}
    copied = [
        node for node in _written_in(original.graph) if node.name in late and not _is_restrided(original.graph, node)
    ]
    for node in copied:
        _copy_first(original.graph, node)
    return split(original) if copied else pair


def _written_in(graph: Graph) -> list[Node]:
    """The inputs of `graph` that it writes."""
    return [node for node in inputs_of(graph) if any(_writes(user, node) for user in node.users)]


def _is_restrided(graph: Graph, node: Node) -> bool:
    """Whether places in the memory of the input `node` are read that a copy of it has elsewhere."""
    value = node.meta["val"]
    if _is_constant(value) and value.storage_offset() == 0:
        return False
    restrided = graph.find_nodes(op="call_function", target=aten.as_strided.default)
    return any(storage_of(x) == storage(value) for x in restrided)


def _is_constant(value: torch.Tensor) -> bool:
    return all(isinstance(n, int) for n in (*value.shape, *value.stride(), value.storage_offset()))


def _writes(user: Node, node: Node) -> bool:
    return user.target is aten.copy_.default and user.args[0] is node


def _reach_backward(graph: Graph, written: Collection[Node]) -> bool:
    """Whether something of the backward, which depends on a tangent, reads what is computed from `written` inputs, which are written last."""
    from_written, backward = set(written), {node for node in inputs_of(graph) if partitioners._is_tangent(node)}
    for node in graph.nodes if written else ():
        operands = set(node.all_input_nodes)
        if node.op == "output" or node.target is aten.copy_.default:
            continue
        if operands & backward:
            if operands & from_written:
                return True
            backward.add(node)
        elif operands & from_written:
            from_written.add(node)
    return False


def _copy_first(graph: Graph, node: Node) -> None:
    """Has a copy of the input `node`, of the same strides where they are constants, be read in its place by all but what writes to it. It is not
    made again."""
    value = node.meta["val"]
    with graph.inserting_before(inputs_of(graph)[-1].next):
        copy = call_like(graph, node, aten.clone.default, node)
        if _is_constant(value) and not lie_alike(copy.meta["val"], value):
            graph.erase_node(copy)
            room = call_like(graph, node, aten.new_empty_strided.default, node, value.shape, value.stride())
            copy = call_like(graph, node, aten.copy.default, room, node)
    copy.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    made = {copy, *copy.all_input_nodes}
    node.replace_all_uses_with(copy, lambda user: user not in made and not _writes(user, node))
    _move_views(graph, copy, value)


def _move_views(graph: Graph, copy: Node, value: torch.Tensor) -> None:
    """Has the views of `copy`, which viewed the tensor `value` before, be of its memory."""
    moved = {copy}
    for node in graph.nodes:
        if node.op != "call_function" or not moved.intersection(node.all_input_nodes):
            continue
        if any(storage(x) == storage(value) for x in tree_leaves(node.meta["val"])):
            given = map_arg((node.args, node.kwargs), lambda x: x.meta["val"])
            with value.fake_mode:
                node.meta["val"] = node.target(*given[0], **given[1])
            moved.add(node)
