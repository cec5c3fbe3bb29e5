"""Which tensors of a graph share memory."""

from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.fx import Node


def storage(value: Any) -> int | None:
    """The identity of a tensor's storage, real or fake, among those that live now; None for what is no tensor, and for one without memory that
    is known: sparse, or inside `vmap`."""
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return value.untyped_storage()._cdata
    except NotImplementedError:
        return None


def storage_of(node: Node) -> int | None:
    """The same of the tensor that a node of AOTAutograd's stands for."""
    return storage(node.meta.get("val"))


def unwrapped(x: torch.Tensor) -> torch.Tensor:
    """The tensor inside those that function transforms (`vmap`, `torch.func.grad`) make of it, over its memory."""
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    return x
