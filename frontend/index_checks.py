"""Checks of what eager raises for on a CPU, and a kernel cannot: indices out of range, more places under a mask than there are elements for
them, and zeros that integers are divided by.

A kernel clamps such an index or count, and gives any number for such a quotient. The checks are operators of the graph: a reduction over the
indices, which is compiled as all else, and an assertion.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import getitem, neg
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import Graph, GraphModule, Node

from .node_arguments import arguments_of
from .node_values import complete_values

aten = torch.ops.aten


@dataclass(frozen=True)
class Range:
    """`index` has to be in [0, size of `x` in `dim`), or, if it `wraps`, in [-size, size). Without `dim` the size is the number of elements."""

    index: Node
    x: Node
    dim: int | None
    wraps: bool


def check_indices(gm: GraphModule) -> None:
    """Adds the checks to the graph of `gm`, of functional ATen operators, where operators on a CPU may need them.

    In the bodies of conditionals and loops, too. RuntimeError is raised, which names the operator, where one fails. Indices of which the range
    is plain to see are not checked.
    """
    graph, done = gm.graph, set[Any]()
    for node in [*graph.nodes]:
        if node.target in _LOOPS:
            for body in _bodies(node):
                check_indices(body)
        if node.op != "call_function" or not _computes_on_cpu(node):
            continue
        for wanted in _ranges(node):
            if wanted not in done and not _holds(wanted):
                done.add(wanted)
                _check_range(graph, node, wanted)
        if node.target is aten.masked_scatter.default:
            _check_count(graph, node, done)
        division = _division(node)
        if division is not None and division not in done:
            done.add(division)
            _check_divisor(graph, node, *division)
    if done:
        complete_values(graph)
        gm.recompile()


# Operators that run graphs, as they are called.
_LOOPS = tuple(
    getattr(torch.ops.higher_order, name)
    for name in ("cond", "while_loop", "scan", "map_impl")
    if hasattr(torch.ops.higher_order, name)
)


def _bodies(node: Node) -> list[GraphModule]:
    held = [getattr(x.graph.owning_module, str(x.target)) for x in node.all_input_nodes if x.op == "get_attr"]
    return [value for value in held if isinstance(value, GraphModule)]


def _computes_on_cpu(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and _may_have_elements(value)


def _may_have_elements(value: torch.Tensor) -> bool:
    return all(not isinstance(size, int) or size > 0 for size in value.shape)


# Ranges

# Operators `f(x, dim, index, ..)` -> whether negative indices count from the end.
_ALONG = {
    aten.gather.default: False,
    aten.index_select.default: False,
    aten.index_add.default: False,
    aten.index_copy.default: False,
    aten.index_fill.int_Scalar: True,
    aten.index_fill.int_Tensor: True,
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


def _ranges(node: Node) -> Iterator[Range]:
    """What the operator wants of its indices."""
    found: list[tuple[Any, Any, int | None, bool]] = []
    if node.target in _ALONG:
        x, dim, index = arguments_of(node)[:3]
        found = [(index, x, dim % max(1, _value(x).dim()), _ALONG[node.target])]
    elif node.target in _AT_EACH:
        x, indices = arguments_of(node)[:2]
        found = [(index, x, dim, True) for dim, index in enumerate(indices)]
    elif node.target in _FLAT:
        x, index = arguments_of(node)[:2]
        found = [(index, x, None, True)]
    elif node.target is aten.embedding.default:
        x, index = arguments_of(node)[:2]
        found = [(index, x, 0, False)]
    for index, x, dim, wraps in found:
        if _is_index(_value(index)) and _value(x).dim():
            yield Range(index, x, dim, wraps)


def _is_index(value: Any) -> bool:
    is_integral = isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
    return is_integral and value.device.type == "cpu" and _may_have_elements(value)


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else node


def _size(wanted: Range) -> Any:
    value = _value(wanted.x)
    return value.numel() if wanted.dim is None else value.shape[wanted.dim]


def _check_range(graph: Graph, node: Node, wanted: Range) -> None:
    size = _size(wanted)
    where = "the tensor" if wanted.dim is None else f"dimension {wanted.dim}"
    told = f", which has {size} elements" if isinstance(size, int) else ""
    with graph.inserting_before(node):
        last: Any = size
        first: Any = -size if wanted.wraps else 0
        if not isinstance(size, int):
            whole = wanted.dim is None
            operator, args = (aten.sym_numel.default, ()) if whole else (aten.sym_size.int, (wanted.dim,))
            last = graph.call_function(operator, (wanted.x, *args))
            first = graph.call_function(neg, (last,)) if wanted.wraps else 0
        low = graph.call_function(aten.ge.Scalar, (wanted.index, first))
        high = graph.call_function(aten.lt.Scalar, (wanted.index, last))
        both = graph.call_function(aten.bitwise_and.Tensor, (low, high))
        _assert(graph, node, both, f"an index is out of bounds for {where}{told}")


def _assert(graph: Graph, node: Node, condition: Node, message: str) -> None:
    """Before `node`, that `condition` holds everywhere."""
    everywhere = graph.call_function(aten.all.default, (condition,))
    check = graph.call_function(aten._assert_async.msg, (everywhere, f"{node.target}: {message}"))
    where = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in node.meta}
    for made in (condition, everywhere, check):
        made.meta.update(where)


def _check_count(graph: Graph, node: Node, done: set[Any]) -> None:
    """That `masked_scatter(x, mask, source)` has an element of `source` for each place under the mask."""
    x, mask, source = arguments_of(node)
    sizes, count = _value(x).shape, _value(source).numel()
    if not all(isinstance(number, int) for number in (*sizes, count)) or sizes.numel() <= count:
        return
    done.add((mask, sizes, count))
    with graph.inserting_before(node):
        everywhere = graph.call_function(aten.expand.default, (mask, list(sizes)))
        places = graph.call_function(aten.sum.default, (everywhere,))
        few = graph.call_function(aten.le.Scalar, (places, count))
        _assert(graph, node, few, f"more places under the mask than elements of the source, which has {count}")


# What is plain to see

# Operators whose result has elements of their first operand alone.
_MOVES = (
    *(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.expand.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.permute.default, aten.clone.default),
    *(aten.slice.Tensor, aten.select.int, aten.repeat.default, aten.flip.default, aten.lift_fresh_copy.default),
)
_PLACES = {  # operators, with the number of the result that has places along a dimension of the first operand
    aten.argmax.default: None,
    aten.argmin.default: None,
    aten.sort.default: 1,
    aten.sort.stable: 1,
    aten.topk.default: 1,
    aten.max.dim: 1,
    aten.min.dim: 1,
}


def _holds(wanted: Range) -> bool:
    """Whether no index can be out of range."""
    size, bounds = _size(wanted), _bounds(wanted.index)
    if not isinstance(size, int) or bounds is None:
        return False
    return (-size if wanted.wraps else 0) <= bounds[0] and bounds[1] < size


def _bounds(node: Node) -> tuple[int, int] | None:
    """Numbers between which all elements are."""
    args, target = node.args, node.target
    if node.op == "get_attr":
        return _bounds_of(getattr(node.graph.owning_module, str(target), None))
    if target in _MOVES:
        return _bounds(args[0])  # type: ignore[arg-type]
    if target is torch.ops.prims.iota.default:
        numbers = [args[0], node.kwargs["start"], node.kwargs["step"]]
        if all(isinstance(number, int) for number in numbers):
            count, start, step = numbers  # type: ignore[misc]
            ends = (start, start + max(0, count - 1) * step)  # type: ignore[operator]
            return min(ends), max(ends)
    if target in (aten.arange.default, aten.arange.start, aten.arange.start_step):
        start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if all(isinstance(number, int) for number in (start, end, step)) and step == 1:
            return start, max(start, end - 1)  # type: ignore[operator,type-var,return-value]
    if target is aten.remainder.Scalar and isinstance(args[1], int) and args[1] > 0:
        return 0, args[1] - 1
    source, result = args if target is getitem else (node, None)
    if isinstance(source, Node) and source.target in _PLACES and _PLACES[source.target] == result:  # type: ignore[index]
        sizes = _value(source.args[0]).shape
        if all(isinstance(size, int) for size in sizes):
            flat = result is None and (len(source.args) < 2 or source.args[1] is None)
            return 0, (sizes.numel() if flat else max(sizes, default=1)) - 1
    return None


def _bounds_of(constant: Any) -> tuple[int, int] | None:
    if not isinstance(constant, torch.Tensor) or isinstance(constant, FakeTensor) or not constant.numel():
        return None
    with unset_fake_temporarily():
        return int(constant.min()), int(constant.max())


# Divisions

_QUOTIENTS = (aten.floor_divide.default, aten.remainder.Tensor, aten.fmod.Tensor, aten.div.Tensor_mode)


def _division(node: Node) -> tuple[Node, Node | None] | None:
    """The tensor of integers that may not have zeros, if the operator divides by one, and what is divided, if that may have no elements where
    the divisor has some."""
    if node.target not in _QUOTIENTS or _value(node).dtype.is_floating_point or _value(node).dtype.is_complex:
        return None
    dividend, divisor = arguments_of(node)[:2]
    if not isinstance(divisor, Node) or not isinstance(_value(divisor), torch.Tensor):
        return None
    sizes, own = ([*map(str, _value(x).shape)] for x in (dividend, divisor))
    return divisor, None if sizes == own or isinstance(_value(dividend).numel(), int) else dividend


def _check_divisor(graph: Graph, node: Node, divisor: Node, dividend: Node | None) -> None:
    with graph.inserting_before(node):
        if dividend is None:
            right = graph.call_function(aten.ne.Scalar, (divisor, 0))
        else:
            zero = graph.call_function(aten.eq.Scalar, (divisor, 0))
            divided = graph.call_function(aten.sym_numel.default, (dividend,))
            right = graph.call_function(aten.le.Scalar, (graph.call_function(aten.mul.Scalar, (zero, divided)), 0))
        _assert(graph, node, right, "integers are divided by zero")
