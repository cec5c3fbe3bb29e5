"""Places in memory that a graph names (`as_strided` and its like): where they lie in the tensor that they are taken of.

Fake tensors tell where a tensor begins in its storage, except of what `slice_scatter` and its like give: that lies as their first argument does,
the rest of its storage with it, and its fake tensor begins at 0.
"""

from collections.abc import Sequence, Set
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError, UserError
from torch.fx import Graph, Node

from .node_calls import STORAGE_OFFSETS, arguments_of
from .stack_traces import location_of
from .storages import storage_of
from .trace_context import holds

aten = torch.ops.aten
_AS_FIRST_ARGUMENT = (
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
)


def origin_of(x: Node) -> Node:
    """The node whose storage, or a copy of it as a whole, `x` lies in."""
    maker = _maker(x)
    if maker.target in _AS_FIRST_ARGUMENT and isinstance(maker.args[0], Node):
        return origin_of(maker.args[0])
    return maker


def offset_in(x: Node, offset: Any) -> Any:
    """`storage_offset` of `as_strided`, an FX argument, counted from the first element of `x`."""
    if offset is None:
        return 0
    start = _start(x)
    place = _value(offset) - start
    if origin_of(x) is not _maker(x) and _symbols(place) & _symbols(start):  # symbols that the graph may not be given
        return _value(offset) - int(start)
    return place


def outside(graph: Graph) -> UnsupportedError | None:
    """Says where places of what the graph itself makes are outside of it: in eager there is more of a storage, or an error.

    Of dynamic sizes there is a guard. What an input has around it is known when it is there.
    """
    for node in graph.nodes:
        if node.target not in STORAGE_OFFSETS:
            continue
        source, *_ = given = arguments_of(node)
        maker = _maker(source)
        if maker.op == "placeholder":
            continue
        first = _inside(source, maker) + offset_in(source, given[STORAGE_OFFSETS[node.target]])
        sizes, strides = (list(map(_value, x)) for x in given[-3:-1])
        made = maker.meta["val"]
        if not (holds(first >= 0) and holds(first + _extent(sizes, strides) <= _extent(made.shape, made.stride()))):
            message = f"takes elements that {maker.name}, a result inside of the graph, does not have"
            return UnsupportedError(message, operator=str(node.target), location=location_of(node))
    return None


def unfollowed(graph: Graph) -> UserError | None:
    """Says where places are counted from the start of an input's storage, by a symbol, in what the graph makes: a new value of an input that was
    written is traced as a tensor of the graph's own, and may be meant as either."""
    inputs = graph.find_nodes(op="placeholder")
    tensors = [
        x.meta["val"] for x in inputs if isinstance(x.meta.get("val"), torch.Tensor) and storage_of(x) is not None
    ]
    starts = {symbol for x in tensors for symbol in _symbols(x.storage_offset())}
    for node in graph.nodes if starts else ():
        if node.target not in STORAGE_OFFSETS:
            continue
        source, *_ = given = arguments_of(node)
        offset = given[STORAGE_OFFSETS[node.target]]
        if _maker(source).op != "placeholder" and _symbols(offset_in(source, offset)) & starts:
            message = f"{node.target} counts from the start of an input's storage, of what was computed"
            hint = "without a storage offset it counts from the tensor's first element; or compile with dynamic=False"
            return UserError(message, location=location_of(node), hint=hint)
    return None


def inside(x: torch.Tensor, sizes: Sequence[Any], strides: Sequence[Any], first: Any) -> bool:
    """Whether places (FX arguments), counted from the first element of `x`, are not outside of it. Of dynamic sizes there is a guard."""
    end = _value(first) + _extent(*(list(map(_value, numbers)) for numbers in (sizes, strides)))
    return holds(x.numel() > 0) and holds(_value(first) >= 0) and holds(end <= _extent(x.shape, x.stride()))


def _start(x: Node) -> Any:
    """The element of its storage at which `x` begins in eager."""
    maker = _maker(x)
    if origin_of(x) is maker:
        return x.meta["val"].storage_offset()
    return _start(maker.args[0]) + _inside(x, maker)  # type: ignore[arg-type]


def _symbols(number: Any) -> Set[Any]:
    return number.node.expr.free_symbols if isinstance(number, torch.SymInt) else frozenset()


def _maker(x: Node) -> Node:
    """The node in whose memory `x` is seen."""
    while x.op == "call_function" and x.args and isinstance(x.args[0], Node) and _same(x, x.args[0]):
        x = x.args[0]
    return x


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _same(x: Node, source: Node) -> bool:
    return storage_of(x) is not None and storage_of(x) == storage_of(source)


def _inside(x: Node, maker: Node) -> Any:
    """Where `x` begins in the memory of its maker."""
    return x.meta["val"].storage_offset() - maker.meta["val"].storage_offset()


def _extent(sizes: Sequence[Any], strides: Sequence[Any]) -> Any:
    """The elements from the first to the last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
