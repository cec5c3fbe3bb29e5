"""Storages of a graph's tensors: which tensors share one, and which inputs' get another size.

Sharded training frees parameters so (`x.untyped_storage().resize_(0)`). AOTAutograd leaves the operator where it was traced; a graph computes
when results are needed: an input could be read after its memory is gone.
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.functorch import get_unwrapped, is_functorch_wrapped_tensor

from .node_calls import STORAGE_OFFSETS

# Compared by name: PyTorch defines the operator where Inductor is imported.
_RESIZE = "inductor::resize_storage_bytes_"


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


def is_view(node: Node) -> bool:
    """Whether a node of AOTAutograd's has elements of its first operand alone, in its memory. `as_strided` may have others of that."""
    if not isinstance(node.target, OpOverload) or node.target._schema.is_mutable or node.target in STORAGE_OFFSETS:
        return False
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or storage_of(node) is None or storage_of(node) != storage_of(source):
        return False
    value, given = node.meta["val"], source.meta["val"]
    return (value.dtype, value.is_neg(), value.is_conj()) == (given.dtype, given.is_neg(), given.is_conj())


def unwrapped(x: torch.Tensor) -> torch.Tensor:
    """The tensor inside those that function transforms (`vmap`, `torch.func.grad`) make of it, over its memory."""
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    return x


def changes_input(node: Node) -> bool:
    """Whether `node` writes to an input of the graph, or gives its storage another size."""
    return isinstance(node.target, OpOverload) and (node.target._schema.is_mutable or _resizes(node))


def resize_last(graph: Graph) -> None:
    """Moves changes of storages' sizes in `graph`, a functional one, to its end, in their order with the writes to inputs that are there."""
    changes = [node for node in graph.nodes if changes_input(node)]
    if any(map(_resizes, changes)):
        for node in changes:
            graph.output_node().prepend(node)


def _resizes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name == _RESIZE
