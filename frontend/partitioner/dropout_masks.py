"""Dropouts whose result a backward may compute again from the mask, a byte an element, which is saved for the gradient anyway."""

import torch
from torch.fx import Graph

from ..fx.node_calls import call_like

aten = torch.ops.aten


def results_from_masks(graph: Graph) -> int:
    """Has each result of a dropout computed from its operand and its mask, the same bits. Of a joint graph; returns how many there were.

    The operator itself draws, so that it cannot be run again: its result would have to be saved beside the mask.
    """
    found = 0
    for node in graph.find_nodes(op="call_function", target=aten.native_dropout.default):
        x, p, *train = node.args
        parts = {part.args[1]: part for part in node.users}
        if not (0.0 < p < 1.0) or train == [False] or 0 not in parts:
            continue
        if 1 not in parts:
            with graph.inserting_before(parts[0]):
                parts[1] = call_like(graph, parts[0], parts[0].target, node, 1)
                parts[1].meta["val"] = node.meta["val"][1]
        parts[0].prepend(parts[1])
        with graph.inserting_before(parts[0]):
            out = call_like(graph, parts[0], aten.native_dropout_backward.default, x, parts[1], 1.0 / (1.0 - p))
        parts[0].replace_all_uses_with(out)
        graph.erase_node(parts[0])
        found += 1
    return found
