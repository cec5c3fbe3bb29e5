"""Weights of convolutions in the order that these read them in."""

import torch
from torch.fx import GraphModule

from ..fx.node_calls import memory_format_of
from .weight_inputs import constant, held_tensor


def lay_out_convolution_weights(gm: GraphModule) -> int:
    """Held weights of convolutions whose result is channels-last become so, once; else each call copies them. Returns how many did."""
    changed = 0
    for node in list(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)):
        weight, order = held_tensor(gm, node.args[1]), memory_format_of(node.meta["val"])
        if weight is None or order in (None, torch.contiguous_format) or weight.is_contiguous(memory_format=order):
            continue
        meta = node.args[1].meta
        meta = {**meta, "val": meta["val"].contiguous(memory_format=order)}
        with gm.graph.inserting_before(node):
            held = constant(gm, f"{node.name}_ordered", weight.contiguous(memory_format=order), meta)
        node.update_arg(1, held)
        changed += 1
    gm.graph.eliminate_dead_code()
    return changed
