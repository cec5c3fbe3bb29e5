"""Outputs that are objects which the graph holds, as the device mesh of a `DTensor` that it returns: no part of what is compiled.

AOTAutograd traces with a stand-in for such an object.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node

from bascule.runtime.boxed import Boxed, boxed


def take_held_outputs(gm: GraphModule) -> dict[int, Any]:
    """The objects that are neither tensors nor graphs among the outputs of `gm`, by number. The graph returns None for each from now on."""
    output = gm.graph.output_node()
    listed = output.args[0]
    if not isinstance(listed, list | tuple):
        return {}
    held = {}
    for number, node in enumerate(listed):
        if isinstance(node, Node) and node.op == "get_attr":
            value = attrgetter(str(node.target))(gm)
            if not isinstance(value, torch.Tensor | GraphModule):
                held[number] = getattr(value, "real_obj", value)
    if held:
        output.args = ([None if number in held else x for number, x in enumerate(listed)],)
        for node in gm.graph.find_nodes(op="get_attr"):
            if not node.users:
                gm.graph.erase_node(node)
        gm.recompile()
    return held


def with_held_outputs(call: Boxed, held: Mapping[int, Any]) -> Boxed:
    """`call`, with the boxed calling convention, that returns `held` among its outputs. What is returned is for no disk cache: the objects are
    this process's."""

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        outputs = list(call(args))
        for number, value in held.items():
            outputs[number] = value
        return outputs

    return run
