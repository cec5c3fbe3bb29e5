"""Writes to tensors that were made in inference mode: outside of it eager refuses them, where compiled code would write.

Dynamo compiles with the mode off, whatever it is, and its guards tell which inputs were made in it: so the mode is asked for at each call.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch.fx import GraphModule, Node

from bascule.frontend.aot.retrace import writes_to
from bascule.frontend.fx.storages import storage

from .untracked_writes import tensors_of_nodes, values_of_nodes


def outside_as_eager(
    gm: GraphModule, example_inputs: Sequence[Any], compiled: Callable[..., Any]
) -> Callable[..., Any]:
    """`compiled`, which outside of inference mode runs `gm` as it is where eager refuses one of its writes."""
    if not _writes_what_inference_made(gm, example_inputs):
        return compiled

    @wraps(compiled)
    def called(*inputs: Any) -> Any:
        return compiled(*inputs) if torch.is_inference_mode_enabled() else gm.forward(*inputs)

    return called


def _writes_what_inference_made(gm: GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether a node of `gm` writes to an input that was made in inference mode, or to a view of one."""
    if not any(isinstance(x, torch.Tensor) and x.is_inference() for x in example_inputs):
        return False
    values = values_of_nodes(gm, example_inputs)
    tensors = tensors_of_nodes(values)
    placeholders = zip(gm.graph.find_nodes(op="placeholder"), example_inputs)
    made = [node for node, x in placeholders if isinstance(x, torch.Tensor) and x.is_inference()]
    storages = {storage(x) for node in made for x in tensors.get(node, ())}

    def lies_there(node: Node) -> bool:
        return not storages.isdisjoint(map(storage, tensors.get(node, ())))

    return any(
        lies_there(x)
        for node in gm.graph.nodes
        if node.op.startswith("call") and any(map(lies_there, node.all_input_nodes))
        for x in writes_to(gm, node, values)
    )
