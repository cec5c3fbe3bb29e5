"""The ends of a graph: the nodes of its inputs, and what it returns."""

from typing import Any

from torch.fx import Graph, Node

# Metadata of the output node: bytes that the graph is given where no memory budget chooses what it saves; without it, those that it is given.
GIVEN_BYTES = "bascule_given_bytes"
CHUNKED = "bascule_chunk_rows"  # metadata of the output node: bytes from which tensors are made by chunks of their rows


def inputs_of(graph: Graph) -> list[Node]:
    """The placeholders of `graph`, in order."""
    return graph.find_nodes(op="placeholder")


def outputs_of(graph: Graph) -> list[Any]:
    """The outputs of `graph`: nodes, numbers and None. One, where a branch or a loop returns a value as it is."""
    (returned,) = graph.output_node().args
    return list(returned) if isinstance(returned, list | tuple) else [returned]
