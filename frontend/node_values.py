"""Values of nodes that a pass over a graph made."""

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from .tracing import fake_mode_of


def complete_values(graph: Graph) -> None:
    """Gives each operator of `graph` without `meta["val"]` what it makes of its arguments' fake tensors. `graph` is one of ATen operators."""
    values = [node.meta["val"] for node in graph.nodes if "val" in node.meta]
    mode = fake_mode_of(values)

    def value_of(node: Node) -> object:
        if node.op == "get_attr" and "val" not in node.meta:
            held: object = graph.owning_module
            for part in str(node.target).split("."):
                held = getattr(held, part)
            return mode.from_tensor(held, static_shapes=True) if isinstance(held, torch.Tensor) else held
        return node.meta["val"]

    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta:
            with mode:
                node.meta["val"] = node.target(*map_arg(node.args, value_of), **map_arg(node.kwargs, value_of))
