"""Weights as constants of a graph: which inputs are weights, and the graph that holds them.

How Dynamo tells where an input comes from is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.node_calls import written_by

_OF_A_MODULE = re.compile(r"\._(parameters|buffers)\['[^']*'\]$")


@dataclass(frozen=True)
class WeightInputs:
    """Which of `count` inputs are weights: parameters and buffers of modules."""

    count: int
    numbers: frozenset[int]


def weight_inputs(gm: GraphModule) -> WeightInputs:
    """The inputs that AOTAutograd's graph of `gm`, a graph of Dynamo's, has; unless it takes inputs apart (tensor subclasses) or joins them.

    Tensors that are only marked as staying in their places are not weights.
    """
    lifted = len(dict(gm.named_parameters(remove_duplicate=False))) + len(
        dict(gm.named_buffers(remove_duplicate=False))
    )
    placeholders = inputs_of(gm.graph)
    found = [number for number, node in enumerate(placeholders, lifted) if _OF_A_MODULE.search(_source(node))]
    return WeightInputs(lifted + len(placeholders), frozenset([*range(lifted), *found]))


def _source(node: Node) -> str:
    name = getattr(getattr(node, "_dynamo_source", None), "name", "")
    return name() if callable(name) else name


def frozen_inputs(graph: Graph, weights: WeightInputs) -> list[int]:
    """The weights that can be constants: `graph`, of AOTAutograd's, neither writes to them nor hands them on as they are."""
    placeholders = inputs_of(graph)
    if len(placeholders) != weights.count:
        return []
    kept = {x for x in outputs_of(graph) if isinstance(x, Node)}
    for node in graph.nodes:
        if isinstance(node.target, OpOverload):
            kept.update(written_by(node))
        elif node.op == "call_function" and getattr(node.target, "__module__", None) != "_operator":
            kept.update(node.all_input_nodes)  # an operator of a higher order: it may write
    return [n for n, node in enumerate(placeholders) if n in weights.numbers and node not in kept]


def with_constants(gm: GraphModule, weights: Mapping[int, torch.Tensor]) -> GraphModule:
    """A copy of `gm` that holds the inputs `weights`, by number, and takes the others."""
    result = GraphModule({}, Graph())
    for node in gm.graph.find_nodes(op="get_attr"):
        _hold(result, node.target, _attribute(gm, node.target))
    copies: dict[Node, Node] = {}
    held = {node: weights[n] for n, node in enumerate(inputs_of(gm.graph)) if n in weights}
    for node in gm.graph.nodes:
        if node in held:
            copies[node] = constant(result, node.name, held[node], node.meta)
        else:
            copies[node] = result.graph.node_copy(node, copies.__getitem__)
    result.meta.update(gm.meta)
    result.recompile()
    return result


def constant(gm: GraphModule, name: str, value: torch.Tensor, meta: Mapping[str, Any]) -> Node:
    """A node, where nodes are inserted at present, for a tensor that `gm` holds from now on. `name` is not that of another one."""
    attribute = f"_frozen_{name}"
    gm.register_buffer(attribute, value.detach(), persistent=False)
    node = gm.graph.get_attr(attribute)
    node.meta = dict(meta)
    return node


def held_tensor(gm: GraphModule, node: Any) -> torch.Tensor | None:
    """The tensor that `node` stands for, if it is one that `gm` holds."""
    value = _attribute(gm, node.target) if isinstance(node, Node) and node.op == "get_attr" else None
    return value if isinstance(value, torch.Tensor) else None


def _hold(gm: GraphModule, target: str, value: Any) -> None:
    *path, name = target.split(".")
    module: torch.nn.Module = gm
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = getattr(module, part)
    setattr(module, name, value)


def _attribute(gm: GraphModule, target: str) -> Any:
    return reduce(getattr, target.split("."), gm)
