"""The values that Dynamo traced a graph's nodes with."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.pytree import tree_leaves

TRACED = ("example_value", "val")  # of a node's metadata: the fake value, as Dynamo and as AOTAutograd call it


def traced(node: Node) -> Any:
    """The value that a node was traced with; None if it does not say."""
    return next((node.meta[key] for key in TRACED if key in node.meta), None)


def static_tensor(node: Any) -> torch.Tensor | None:
    """The fake tensor of static sizes that a node was traced with."""
    value = traced(node) if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) and _is_static(value) else None


def leaves(value: Any) -> list[Any]:
    """The tensors and numbers of a value."""
    return [value] if isinstance(value, torch.Tensor) else tree_leaves(value)


def is_known_before(value: Any) -> bool:
    """Whether a value is made of plain fake tensors of static sizes, and of numbers that are known."""
    return all(type(x) in (int, float, bool) or (type(x) is FakeTensor and _is_static(x)) for x in leaves(value))


def tensors_of(nodes: list[Node]) -> Iterator[torch.Tensor]:
    """The tensors that nodes were traced with."""
    return (x for node in nodes for x in leaves(traced(node)) if isinstance(x, torch.Tensor))


def _is_static(x: torch.Tensor) -> bool:
    return all(type(size) is int for size in x.shape)
