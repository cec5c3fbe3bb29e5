"""Dropouts whose mask a backward draws again: a number of 8 bytes is saved for each, instead of a byte an element.

The numbers of a stream are a function of its seed and of the element's place (`frontend/rules/calls/random.py`), so the mask is a pointwise
operator like others, which the partitioner computes on both sides. What is drawn from the seed is what the operator itself would draw from it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.graph_ends import inputs_of
from ..fx.node_calls import call_like
from ..fx.size_nodes import SizeNodes

aten, prims = torch.ops.aten, torch.ops.prims

CHECKPOINTED = ("recompute", "ac_graph_id")  # in the metadata of a node of a region that is checkpointed


def seed_dropouts(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Draws the masks of the dropouts on `devices` of which some elements pass from seeds made at the top. Of a joint graph, before it is
    split; returns how many there were."""
    dropouts = [
        node for node in graph.find_nodes(op="call_function", target=aten.native_dropout.default) if _draws(node)
    ]
    dropouts = [node for node in dropouts if node.args[0].meta["val"].device.type in devices]
    for device in dict.fromkeys(node.args[0].meta["val"].device for node in dropouts):
        _seed(graph, [node for node in dropouts if node.args[0].meta["val"].device == device], device)
    return len(dropouts)


def _draws(node: Node) -> bool:
    _, p, *train = node.args
    return 0.0 < p < 1.0 and train != [False]


def _seed(graph: Graph, dropouts: Sequence[Node], device: torch.device) -> None:
    """One call for all seeds, after the inputs."""
    *_, last = inputs_of(graph)
    sizes = SizeNodes(graph)
    with graph.inserting_after(last):
        seeds = _apart(_call(graph, dropouts[0], prims.inductor_seeds.default, len(dropouts), device))
    for number, node in enumerate(dropouts):
        x, p, *_ = node.args
        with graph.inserting_before(node):
            seed = _apart(_call(graph, node, prims.inductor_lookup_seed.default, seeds, number))
            uniform = _call(graph, node, prims.inductor_random.default, sizes(x.meta["val"].shape), seed, "rand")
            kept = _call(graph, node, aten.lt.Scalar, uniform, 1.0 - p)
            out = _call(graph, node, aten.native_dropout_backward.default, x, kept, 1.0 / (1.0 - p))
        for part in list(node.users):
            part.replace_all_uses_with((out, kept)[part.args[1]])
            graph.erase_node(part)
        graph.erase_node(node)


def _call(graph: Graph, dropout: Node, target: OpOverload, *args: Any) -> Node:
    """A call in the region of `dropout`."""
    made = call_like(graph, dropout.args[0], target, *args)
    made.meta = {**dropout.meta, "val": made.meta["val"]}
    made.meta.pop("tensor_meta", None)
    return made


def _apart(node: Node) -> Node:
    """The node in no region that is checkpointed: what it gives is not drawn again."""
    for key in CHECKPOINTED:
        node.meta.pop(key, None)
    return node
