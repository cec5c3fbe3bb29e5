"""A graph that is run in two ways to see whether they agree: copies of what it is given, and what differs."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch

from ..dialect.interpreter import compare


def copied(value: Any) -> Any:
    """A copy of a tensor with the same strides, overlapping ones too; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.detach().untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype, device=value.device)
    return made.set_(storage, value.storage_offset(), value.shape, value.stride())


def copy_of(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """`gm` with a graph of its own."""
    return torch.fx.GraphModule(gm, deepcopy(gm.graph))


def draws(gm: torch.fx.GraphModule) -> bool:
    """Whether `gm` draws random numbers: by design, others than its operators draw."""
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in gm.graph.nodes)


def differences(wanted: Sequence[Any], got: Sequence[Any]) -> tuple[str, ...]:
    """A line for each tensor or number of `got` that is another than in `wanted`, by more than another order of the same operations may change
    (see `compare`); NaN equals NaN."""
    return compare(tensors_of(wanted), tensors_of(got)).differences


def tensors_of(values: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors, and numbers as tensors; not what else a graph hands on."""
    return [torch.as_tensor(value) for value in values if isinstance(value, torch.Tensor | int | float)]
