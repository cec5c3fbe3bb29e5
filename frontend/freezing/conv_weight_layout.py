"""Weights of convolutions in the order that these read them in."""

import torch
from torch.fx import GraphModule

from .weight_inputs import constant, held_tensor

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def lay_out_convolution_weights(gm: GraphModule) -> int:
    """Held weights of convolutions whose result is channels-last become so, once; else each call copies them. Returns how many did."""
    changed = 0
    for node in list(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)):
        weight, made = held_tensor(gm, node.args[1]), node.meta["val"]
        order = _FORMATS.get(made.dim())
        if weight is None or order is None or made.is_contiguous() or not made.is_contiguous(memory_format=order):
            continue
        if weight.is_contiguous(memory_format=order):
            continue
        meta = node.args[1].meta
        meta = {**meta, "val": meta["val"].contiguous(memory_format=order)}
        with gm.graph.inserting_before(node):
            held = constant(gm, f"{node.name}_ordered", weight.contiguous(memory_format=order), meta)
        node.update_arg(1, held)
        changed += 1
    gm.graph.eliminate_dead_code()
    return changed
