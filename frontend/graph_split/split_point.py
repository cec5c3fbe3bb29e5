"""An operator between compiled parts of a graph, as users are told of it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from bascule.compat.operators.schemas import HigherOrderOperator

from ..fx.stack_traces import location_of


@dataclass(frozen=True)
class Cut:
    """An operator that runs between compiled parts."""

    operator: str  # "higher_order.cond"
    reason: str
    location: str | None  # "model.py:12"

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}" + (f" ({self.location})" if self.location else "")


def called_by(node: Node) -> Any:
    """The operator that `node` calls: of `with_effects`, which orders calls, the one that it is given."""
    return node.args[1] if node.target is torch.ops.higher_order.with_effects else node.target


def operator_of(node: Node) -> str:
    """`aten.nonzero.default`, `higher_order.cond`."""
    target = called_by(node)
    return f"higher_order.{target.name()}" if isinstance(target, HigherOrderOperator) else str(target)


def cut_at(node: Node, reason: str) -> Cut:
    return Cut(operator_of(node), reason, location_of(node))
