"""An operator between compiled parts of a graph, as users are told of it."""

from dataclasses import dataclass

import torch
from torch.fx import Node

from .stack_traces import location_of


@dataclass(frozen=True)
class Cut:
    """An operator that runs between compiled parts."""

    operator: str  # "higher_order.cond"
    reason: str
    location: str | None  # "model.py:12"

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}" + (f" ({self.location})" if self.location else "")


def operator_of(node: Node) -> str:
    """`aten.nonzero.default`, `higher_order.cond`."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return f"higher_order.{node.target.name()}"
    return str(node.target)


def cut_at(node: Node, reason: str) -> Cut:
    return Cut(operator_of(node), reason, location_of(node))
