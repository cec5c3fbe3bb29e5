"""The ends of a graph: the nodes of its inputs, and what it returns."""

from typing import Any

from torch.fx import Graph, Node

# Metadata of the output node:
VISIBLE = "bascule_visible_outputs"  # how many of its outputs, the first ones, the user sees; without it, all
NOTED = "bascule_note"  # a remark about the graph
GIVEN_BYTES = "bascule_given_bytes"  # bytes that it is given where no memory budget chooses what it saves; without it, those that it is given
AS_WITHOUT = "bascule_as_without_budget"  # its passes are those of a graph without a memory budget
CHUNKED = "bascule_chunk_rows"  # bytes from which tensors are made by chunks of their rows
# Metadata of a placeholder:
TANGENT_OF = "bascule_tangent"  # a gradient beside a loss's, which autograd mostly does not have
SHARED = "bascule_shared_input"  # of a backward's: the user was given the tensor too, and may have let go of it
DYING = "bascule_dying_input"  # nobody but the graph holds the tensor when it runs
RESTRIDED = "bascule_restrided_input"  # what gives the tensor, an operator that runs by itself, may give it other strides than it told


def inputs_of(graph: Graph) -> list[Node]:
    """The placeholders of `graph`, in order."""
    return graph.find_nodes(op="placeholder")


def is_tangent(node: Node) -> bool:
    """Whether `node` is an input of AOTAutograd's that is a gradient of an output."""
    return node.op == "placeholder" and node.name.startswith("tangents_")


def outputs_of(graph: Graph) -> list[Any]:
    """The outputs of `graph`: nodes, numbers and None. One, where a branch or a loop returns a value as it is."""
    (returned,) = graph.output_node().args
    return list(returned) if isinstance(returned, list | tuple) else [returned]
