"""Which of the tensors that a forward saves the user holds too, so that they do not die with the backward."""

from torch.fx import GraphModule, Node

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.storages import storage_of

# Metadata of a placeholder of a backward: the tensor shares memory with what the user gives to the forward, or is given by it.
HELD = "bascule_held_input"
RETURNED = "bascule_returned_input"  # of another: with what the forward gives the user, who may let go of it
ON_HOST = "bascule_input_on_host"  # of another: the tensor lies on the host, though the graph computes elsewhere


def mark_held(forward: GraphModule, backward: GraphModule, visible: int) -> None:
    """Notes `HELD` and `RETURNED` in `backward`. `visible`: how many outputs of `forward`, the first ones, the user sees; the others are
    saved."""
    outputs = outputs_of(forward.graph)
    given = {storage_of(node) for node in inputs_of(forward.graph)} - {None}
    returned = {storage_of(node) for node in outputs[:visible] if isinstance(node, Node)} - given - {None}
    storages = {node.name: storage_of(node) for node in outputs if isinstance(node, Node)}
    for node in inputs_of(backward.graph):
        storage = storages.get(node.name)
        if storage in given | returned:
            node.meta[HELD] = True
            node.meta[RETURNED] = storage in returned
