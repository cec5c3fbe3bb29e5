"""Between which numbers the elements of integer tensors lie, by what makes them: places that operators find along a dimension, and what views,
gathers, sorts and casts give of those."""

from operator import getitem
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from bascule.compat.operators.schemas import OpOverload

from .node_calls import arguments_of

aten = torch.ops.aten


class Range(NamedTuple):
    """Each element is at least `least` and at most `most`."""

    least: int
    most: int


# Operators that find places along a dimension of their first operand -> which of their results those are (None: the only one), and which
# argument is the dimension.
_PLACES = {
    aten.topk.default: (1, 2),
    aten.sort.default: (1, 1),
    aten.sort.stable: (1, 2),
    aten.max.dim: (1, 1),
    aten.min.dim: (1, 1),
    aten.argmax.default: (None, 1),
    aten.argmin.default: (None, 1),
    aten.argsort.default: (None, 1),
    aten.argsort.stable: (None, 2),
}
# Operators that give elements of their first operand, beside views of it.
_ELEMENTS = {aten._unsafe_view.default, aten.clone.default, aten.index.Tensor, aten.index_select.default}
_ELEMENTS |= {aten.gather.default, aten.repeat.default, aten.flip.default}
_VALUES = {
    aten.topk.default,
    aten.sort.default,
    aten.sort.stable,
    aten.max.dim,
    aten.min.dim,
}  # those whose first result does
_OUTSIDE = {aten.as_strided.default}  # a view that may have elements which its operand does not have


class IntegerRanges:
    """Of the nodes of one graph, which writes to none of them."""

    def __init__(self) -> None:
        self._known: dict[Node, Range | None] = {}

    def of(self, node: Any) -> Range | None:
        """The range of a node's elements; None where it is not known."""
        if not isinstance(node, Node):
            return Range(node, node) if type(node) is int else None
        chain = list[Node]()
        while node not in self._known:  # down to what is known, without recursion
            chain.append(node)
            source = _source(node)
            if source is None:
                self._known[node] = _made(node)
                break
            node = source
        for each in reversed(chain):
            if each not in self._known:
                source = _source(each)
                assert source is not None
                self._known[each] = _fitting(self._known[source], each)
        return self._known[chain[0] if chain else node]


def _source(node: Node) -> Node | None:
    """The tensor whose elements alone `node` has, as they are or as other integers."""
    if node.op != "call_function":
        return None
    if node.target is getitem:
        parent, number = node.args
        if parent.target in _VALUES:
            return parent.args[0] if number == 0 else None
        return parent.args[0] if _is_view(parent.target) else None
    taken = node.target in _ELEMENTS or node.target is aten._to_copy.default or _is_view(node.target)
    return node.args[0] if taken and isinstance(node.args[0], Node) else None


def _is_view(target: Any) -> bool:
    if not isinstance(target, OpOverload) or target in _OUTSIDE or target.namespace != "aten":
        return False
    first = target._schema.arguments[:1]
    return all(x.alias_info is not None and not x.alias_info.is_write for x in first) and bool(first)


def _fitting(found: Range | None, node: Node) -> Range | None:
    """`found`, if the elements of `node` are integers that hold it."""
    value = node.meta.get("val")
    if found is None or not isinstance(value, torch.Tensor) or not _is_integer(value.dtype):
        return None
    source = _source(node)
    before = None if source is None else source.meta.get("val")
    if node.target is not aten._to_copy.default and isinstance(before, torch.Tensor) and before.dtype != value.dtype:
        return None  # a view of the bytes
    info = torch.iinfo(value.dtype)
    return found if info.min <= found.least and found.most <= info.max else None


def _made(node: Node) -> Range | None:
    """The range of what `node` computes."""
    if node.op != "call_function":
        return None
    parent, number = node.args if node.target is getitem else (node, None)
    if not isinstance(parent, Node) or parent.target not in _PLACES:
        return None
    result, dim = _PLACES[parent.target]
    if number != result:
        return None
    given = arguments_of(parent)
    sizes, dim = given[0].meta["val"].shape, given[dim]
    if dim is None or not sizes:
        return None
    size = sizes[dim]
    return Range(0, max(0, size - 1)) if type(size) is int else None


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
