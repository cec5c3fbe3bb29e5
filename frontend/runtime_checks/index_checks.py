"""Checks of indices from data that eager refuses on a CPU, and a kernel clamps: those out of range.

The checks are operators of the graph: which index is the first out of range, which is compiled as all else, and what raises for it
(`runtime/modules/index_errors.py`). What else eager looks for among elements: `value_checks.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import getitem, mul, neg
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..fx.node_calls import arguments_of
from ..fx.node_values import complete_values
from .index_bounds import bounds
from .value_checks import check_values, computes_on_cpu, may_have_elements, operator_of, value_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Range:
    """`index` has to be in [0, size), or, if it `wraps`, in [-size, size). The size is that of `x` in `dim`, without `dim` the number of its
    elements; or `x` itself has the sizes of which it is the product."""

    index: Node
    x: Any
    dim: int | None
    wraps: bool


def check_indices(gm: GraphModule) -> int:
    """Adds the checks of `value_checks.py` and of indices to the graph of `gm`, of functional ATen operators, where operators on a CPU may need
    them.

    In the bodies of conditionals and loops, too. Where a check fails, an exception of the type that eager raises, or of one under it, names the
    user's operator, the index and the size. Indices of which the range is plain to see are not checked.
    Returns how many checks it added.
    """
    graph, done, added = gm.graph, set[Any](), 0
    for node in [*graph.nodes]:
        if node.target in _LOOPS:
            for body in _bodies(node):
                added += check_indices(body)
        if node.op != "call_function" or not computes_on_cpu(node):
            continue
        for wanted in ranges(node):
            if wanted not in done and _is_on_cpu(wanted) and not _holds(wanted):
                done.add(wanted)
                _check_range(graph, node, wanted)
        check_values(graph, node, done)
    if done:
        complete_values(graph)
        gm.recompile()
    return added + len(done)


# Operators that run graphs, as they are called.
_LOOPS = tuple(
    getattr(torch.ops.higher_order, name)
    for name in ("cond", "switch", "while_loop", "scan", "map_impl")
    if hasattr(torch.ops.higher_order, name)
)


def _bodies(node: Node) -> list[GraphModule]:
    held = [getattr(x.graph.owning_module, str(x.target)) for x in node.all_input_nodes if x.op == "get_attr"]
    return [value for value in held if isinstance(value, GraphModule)]


# Operators `f(x, dim, index, ..)` -> whether negative indices count from the end.
_ALONG = {
    aten.gather.default: False,
    aten.index_select.default: False,
    aten.index_add.default: False,
    aten.index_copy.default: False,
    aten.index_fill.int_Scalar: True,
    aten.index_fill.int_Tensor: True,
    aten.index_reduce.default: False,
    aten.scatter.src: False,
    aten.scatter.value: False,
    aten.scatter.reduce: False,
    aten.scatter.value_reduce: False,
    aten.scatter_add.default: False,
    aten.scatter_reduce.two: False,
}
# f(x, indices, ..); `_unsafe_index`, of which the indices are made to fit, is not among them.
_AT_EACH = (aten.index.Tensor, aten.index_put.default, aten._unsafe_index_put.default)
_FLAT = (aten.take.default, aten.put.default)  # f(x, index, ..)
_UNPOOLING = (aten.max_unpool2d.default, aten.max_unpool3d.default)  # f(x, index, sizes, ..)


def ranges(node: Node) -> Iterator[Range]:
    """The ranges that the operator requires of its indices."""
    found: list[tuple[Any, Any, int | None, bool]] = []
    if node.target in _ALONG:
        x, dim, index = arguments_of(node)[:3]
        found = [(index, x, dim % max(1, value_of(x).dim()), _ALONG[node.target])]
    elif node.target in _AT_EACH:
        x, indices = arguments_of(node)[:2]
        found = [(index, x, dim, True) for dim, index in enumerate(indices)]
    elif node.target in _FLAT:
        x, index = arguments_of(node)[:2]
        found = [(index, x, None, True)]
    elif node.target in _UNPOOLING:
        _, index, sizes = arguments_of(node)[:3]
        found = [(index, tuple(sizes), None, False)]
    elif node.target is aten.embedding.default:
        x, index = arguments_of(node)[:2]
        found = [(index, x, 0, False)]
    for index, x, dim, wraps in found:
        wanted = Range(index, x, dim, wraps)
        if _is_index(value_of(index)) and not _left_to_aten(size_of(wanted)):
            yield wanted


def _is_index(value: Any) -> bool:
    is_integral = isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
    return is_integral and may_have_elements(value)


def _is_on_cpu(wanted: Range) -> bool:
    return value_of(wanted.index).device.type == "cpu"


def _left_to_aten(size: Any) -> bool:
    """Whether no index can be in range: ATen itself then runs the operator, and refuses it."""
    return isinstance(size, int) and size == 0


def size_of(wanted: Range) -> Any:
    if isinstance(wanted.x, tuple):
        return reduce(mul, map(value_of, wanted.x))
    value = value_of(wanted.x)
    if wanted.dim is None:
        return value.numel()
    return value.shape[wanted.dim] if value.dim() else 1


def _holds(wanted: Range) -> bool:
    """Whether no index can be out of range."""
    size, known = size_of(wanted), bounds(wanted.index)
    if not isinstance(size, int) or known is None:
        return False
    return (-size if wanted.wraps else 0) <= known[0] and known[1] < size


def _check_range(graph: Graph, node: Node, wanted: Range) -> None:
    text = f"{operator_of(node)}: index {{index}} is out of bounds for {where_of(wanted)}"
    with graph.inserting_before(node):
        size = size_node(graph, wanted)
        first = (graph.call_function(neg, (size,)) if isinstance(size, Node) else -size) if wanted.wraps else 0
        looked = graph.call_function(torch.ops.bascule.first_outside.default, (wanted.index, first, size))
        results = [graph.call_function(getitem, (looked, number)) for number in range(2)]
        sizes = wanted.x if isinstance(wanted.x, tuple) else (size,)
        check = graph.call_function(torch.ops.bascule.check_index.default, (*results, list(sizes), text))
    with value_of(wanted.index).fake_mode:
        made = tuple(torch.empty((), dtype=torch.int64) for _ in results)
    for new, value in zip((looked, *results, check), (made, *made, None), strict=True):
        new.meta |= {key: node.meta[key] for key in _LINES if key in node.meta} | {"val": value}


_LINES = ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten")


def where_of(wanted: Range) -> str:
    """The thing that the index counts in, with its size as `{size}`."""
    if wanted.dim is not None:
        return f"dimension {wanted.dim} with size {{size}}"
    return "output volumes of size {size}" if isinstance(wanted.x, tuple) else "a tensor of {size} elements"


def size_node(graph: Graph, wanted: Range) -> Any:
    """The size, as an argument of an operator: a number, or a node that is inserted."""
    size = size_of(wanted)
    if isinstance(size, int):
        return size
    if isinstance(wanted.x, tuple):
        return reduce(lambda a, b: graph.call_function(mul, (a, b)), wanted.x)
    operator, args = (aten.sym_numel.default, ()) if wanted.dim is None else (aten.sym_size.int, (wanted.dim,))
    return graph.call_function(operator, (wanted.x, *args))
