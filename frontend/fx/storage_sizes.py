"""Inputs whose storage a graph gives another size (`x.untyped_storage().resize_(0)`), as sharded training frees parameters.

AOTAutograd leaves the operator where it was traced. A graph computes when results are needed: an input could be read after its memory is gone.
"""

from torch._ops import OpOverload
from torch.fx import Graph, Node

# Compared by name: PyTorch defines the operator where Inductor is imported.
_RESIZE = "inductor::resize_storage_bytes_"


def changes_input(node: Node) -> bool:
    """Whether `node` writes to an input of the graph, or gives its storage another size."""
    return isinstance(node.target, OpOverload) and (node.target._schema.is_mutable or _resizes(node))


def resize_last(graph: Graph) -> None:
    """Moves changes of storages' sizes in `graph`, a functional one, to its end, in their order with the writes to inputs that are there."""
    changes = [node for node in graph.nodes if changes_input(node)]
    if any(map(_resizes, changes)):
        for node in changes:
            graph.output_node().prepend(node)


def _resizes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name == _RESIZE
