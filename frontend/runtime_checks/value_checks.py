"""Checks of elements, other than indices, that eager refuses on a CPU and a kernel takes: probabilities outside of [0, 1], negative deviations,
zeros that integers are divided by, more places under a mask than there are elements for them.

The checks are operators of the graph: a reduction over the elements, which is compiled as all else, and an assertion.
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.node_calls import arguments_of

aten = torch.ops.aten


def value_of(argument: Any) -> Any:
    """The value of a node's argument: a fake tensor, a number."""
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def computes_on_cpu(node: Node) -> bool:
    """Whether a node gives tensors on a CPU that may have elements."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, list | tuple) and value else value
    return isinstance(first, torch.Tensor) and first.device.type == "cpu" and may_have_elements(first)


def may_have_elements(value: torch.Tensor) -> bool:
    return all(not isinstance(size, int) or size > 0 for size in value.shape)


def operator_of(node: Node) -> Any:
    """The operator that the user called, of which the one of `node` is a part, or all."""
    original = node.meta.get("original_aten")
    return original if isinstance(original, OpOverload) else node.target


def check_values(graph: Graph, node: Node, done: set[Any]) -> None:
    """Adds the checks of what `node` reads, but for those `done`, where RuntimeError is raised as in eager."""
    if node.target is aten.masked_scatter.default:
        _check_count(graph, node, done)
    for x, low, high, message in _intervals(node):
        if isinstance(value_of(x), torch.Tensor) and (x, low, high) not in done:
            done.add((x, low, high))
            _check_interval(graph, node, x, low, high, message)
    division = _division(node)
    if division is not None and division not in done:
        done.add(division)
        _check_divisor(graph, node, *division)


def _assert(graph: Graph, node: Node, condition: Node, message: str) -> None:
    """Before `node`, that `condition` holds everywhere."""
    everywhere = graph.call_function(aten.all.default, (condition,))
    check = graph.call_function(aten._assert_async.msg, (everywhere, f"{operator_of(node)}: {message}"))
    where = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in node.meta}
    for made in (condition, everywhere, check):
        made.meta.update(where)


# operator -> number of a parameter, where its elements have to lie, both ends included (None: anywhere), what it is called
_INTERVALS: dict[Any, list[tuple[int, float, float | None, str]]] = {
    aten.binary_cross_entropy.default: [(0, 0, 1, "elements of input"), (1, 0, 1, "elements of target")],
    aten.bernoulli.default: [(0, 0, 1, "probabilities")],
    aten.bernoulli.Tensor: [(1, 0, 1, "probabilities")],
    aten.normal.float_Tensor: [(1, 0, None, "elements of std")],
    aten.normal.Tensor_Tensor: [(1, 0, None, "elements of std")],
}


def _intervals(node: Node) -> list[tuple[Any, float, float | None, str]]:
    """Operand, least and largest element, and what is said of others."""
    found = []
    for number, low, high, name in _INTERVALS.get(node.target, ()):
        wanted = f"between {low} and {high}" if high is not None else f">= {low}"
        found.append((arguments_of(node)[number], low, high, f"all {name} should be {wanted}"))
    return found


def _check_interval(graph: Graph, node: Node, x: Node, low: float, high: float | None, message: str) -> None:
    """NaN lies nowhere."""
    with graph.inserting_before(node):
        right = graph.call_function(aten.ge.Scalar, (x, low))
        if high is not None:
            right = graph.call_function(
                aten.bitwise_and.Tensor, (right, graph.call_function(aten.le.Scalar, (x, high)))
            )
        _assert(graph, node, right, message)


def _check_count(graph: Graph, node: Node, done: set[Any]) -> None:
    """That `masked_scatter(x, mask, source)` has an element of `source` for each place under the mask."""
    x, mask, source = arguments_of(node)
    sizes, count = value_of(x).shape, value_of(source).numel()
    if value_of(mask).dtype != torch.bool or not all(isinstance(number, int) for number in (*sizes, count)):
        return
    if sizes.numel() <= count or (mask, sizes, count) in done:
        return
    done.add((mask, sizes, count))
    with graph.inserting_before(node):
        everywhere = graph.call_function(aten.expand.default, (mask, list(sizes)))
        places = graph.call_function(aten.sum.default, (everywhere,))
        few = graph.call_function(aten.le.Scalar, (places, count))
        _assert(graph, node, few, f"more places under the mask than elements of the source, which has {count}")


_QUOTIENTS = (
    *(aten.floor_divide.default, aten.remainder.Tensor, aten.remainder.Scalar_Tensor, aten.fmod.Tensor),
    aten.div.Tensor_mode,
)


def _division(node: Node) -> tuple[Node, Node | None] | None:
    """The tensor of integers that may not have zeros, if the operator divides by one, and what is divided, if that may have no elements where
    the divisor has some."""
    if node.target not in _QUOTIENTS or value_of(node).dtype.is_floating_point or value_of(node).dtype.is_complex:
        return None
    dividend, divisor = arguments_of(node)[:2]
    if not isinstance(value_of(divisor), torch.Tensor):
        return None
    if not isinstance(value_of(dividend), torch.Tensor):
        return divisor, None
    sizes, own = ([*map(str, value_of(x).shape)] for x in (dividend, divisor))
    return divisor, None if sizes == own or isinstance(value_of(dividend).numel(), int) else dividend


def _check_divisor(graph: Graph, node: Node, divisor: Node, dividend: Node | None) -> None:
    with graph.inserting_before(node):
        if dividend is None:
            right = graph.call_function(aten.ne.Scalar, (divisor, 0))
        else:
            zero = graph.call_function(aten.eq.Scalar, (divisor, 0))
            divided = graph.call_function(aten.sym_numel.default, (dividend,))
            right = graph.call_function(aten.le.Scalar, (graph.call_function(aten.mul.Scalar, (zero, divided)), 0))
        _assert(graph, node, right, "integers are divided by zero")
