"""Constant folding: what a graph computes from its own tensors alone is computed once, and becomes a tensor of the graph."""

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from bascule.compat.operators.schemas import OpOverload

from ..fx.storages import storage_of
from ..fx_passes.cse import repeats
from .weight_inputs import constant, held_tensor

_GROWTH = 2  # how many bytes a result may have for each byte it is computed from: a cast to f32 has two
_SMALL = 1 << 16  # bytes: what has no more may grow


def fold_constants(gm: GraphModule) -> int:
    """Replaces nodes whose arguments are all held by held tensors, with the strides they were traced with. Returns how many it removed.

    What shares memory with an output stays, since it is the caller's; so does what is much larger than what it is made of (a kernel reads a
    broadcast weight from a cache). Operators run as eager runs them, each result rounded to its dtype.
    """
    outputs = {storage_of(node) for node in gm.graph.output_node().all_input_nodes} - {None}
    known: dict[Node, torch.Tensor] = {}
    for node in gm.graph.nodes:
        held = held_tensor(gm, node)
        if held is not None:
            known[node] = held
        elif _folds(node, known) and storage_of(node) not in outputs:
            args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
            with torch.no_grad():
                value = node.target(*args, **kwargs)
            known[node] = _laid_out(value, node.meta["val"])
    folded = [node for node in known if node.op == "call_function"]
    for node in folded:
        if any(user not in known for user in node.users):
            with gm.graph.inserting_before(node):
                node.replace_all_uses_with(constant(gm, node.name, known[node], node.meta))
    gm.graph.eliminate_dead_code()
    return len(folded)


def _folds(node: Node, known: dict[Node, torch.Tensor]) -> bool:
    inputs = node.all_input_nodes
    if node.op != "call_function" or not inputs or any(x not in known for x in inputs):
        return False
    target, value = node.target, node.meta.get("val")
    if not isinstance(target, OpOverload) or target._schema.is_mutable or not repeats(target):
        return False
    if not isinstance(value, torch.Tensor) or 0 in value.stride():
        return False
    return _bytes(value) <= max(_SMALL, _GROWTH * sum(_bytes(known[x]) for x in inputs))


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def _laid_out(value: torch.Tensor, like: Any) -> torch.Tensor:
    if value.stride() == like.stride():
        return value
    return torch.empty_strided(like.shape, like.stride(), dtype=value.dtype, device=value.device).copy_(value)
