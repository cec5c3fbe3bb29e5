"""Which of the tensors that a forward saves the user holds too, so that they do not die with the backward."""

from torch.fx import GraphModule, Node

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.storages import storage_of

# Metadata of a placeholder of a backward: the tensor shares memory with what the user gives to the forward, or is given by it.
HELD = "bascule_held_input"
ON_HOST = "bascule_input_on_host"  # of another: the tensor lies on the host, though the graph computes elsewhere


def mark_held(forward: GraphModule, backward: GraphModule, visible: int) -> None:
    """Notes `HELD` in `backward`. `visible`: how many outputs of `forward`, the first ones, the user sees; the others are saved."""
    outputs = outputs_of(forward.graph)
    seen = [*inputs_of(forward.graph), *outputs[:visible]]
    held = {storage_of(node) for node in seen if isinstance(node, Node)} - {None}
    names = {node.name for node in outputs if isinstance(node, Node) and storage_of(node) in held}
    for node in inputs_of(backward.graph):
        if node.name in names:
            node.meta[HELD] = True
