"""Equal nodes of a graph become one, of a joint graph before it is split into forward and backward.

The partitioner has such a pass, which imports all of Inductor's lowerings: most of the time of a first call.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload

from ..fx.operator_effects import leaves_unwritten
from ..fx.storages import storage_of

_UNIQUE = (
    torch.Tag.nondeterministic_seeded,
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
)
_MODULES = ("_operator", "math", "torch")  # of the functions that compute sizes and take results apart


class _Distinct(Exception):
    """An argument that is not compared."""


def merge_equal_nodes(graph: Graph) -> int:
    """Replaces each node by an earlier one of the same operator and arguments. Returns how many.

    Random operators, those whose results have sizes of their own, and what shares memory with an output stay. Nodes with a write to memory
    between them are not equal.
    """
    outputs = {storage_of(node) for node in graph.output_node().all_input_nodes} - {None}
    known: dict[Hashable, Node] = {}
    writes = merged = 0
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        overload = isinstance(node.target, OpOverload)
        if overload and node.target._schema.is_mutable:
            writes += 1
            continue
        if storage_of(node) in outputs or not (repeats(node.target) if overload else _is_plain(node.target)):
            continue
        try:
            key = writes, node.target, _key(node.args), _key(node.kwargs)
            first = known.setdefault(key, node)
        except (_Distinct, TypeError):  # TypeError: an argument without a hash
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            merged += 1
    return merged


def repeats(target: OpOverload) -> bool:
    """Whether a second call gives what the first gave."""
    if leaves_unwritten(target) or any(tag in target.tags for tag in _UNIQUE):
        return False
    return target.namespace in ("aten", "prims")


def _is_plain(target: Any) -> bool:
    return not isinstance(target, HigherOrderOperator) and getattr(target, "__module__", "") in _MODULES


def _key(x: Any) -> Hashable:
    """`x` to compare by: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(x, tuple | list):
        return tuple(map(_key, x))
    if isinstance(x, dict):
        return tuple((name, _key(value)) for name, value in sorted(x.items()))
    if isinstance(x, slice):
        return "slice", _key((x.start, x.stop, x.step))
    if isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Tensor):
        raise _Distinct
    return type(x), repr(x) if isinstance(x, float | complex) else x
