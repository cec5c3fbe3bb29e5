"""The gradient of a bias that several attentions share, as a sum over the batch for each.

Autograd first adds the gradients of what is read several times: where the bias is expanded over the batch once for all layers, those of their
scores, numbers of each row and key of the whole batch. Then it sums over the batch. A sum of one attention alone is computed where its scores'
gradients are, which then are in no memory. What is added is f32, and rounded at last.
"""

from collections.abc import Iterator, Sequence
from math import prod
from operator import getitem

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import call_like
from ..fx.trace_context import hint
from .attention_structure import NARROW, sums_batch
from .open_attentions import BACKWARD, BIAS

aten = torch.ops.aten

WIDE = 4  # bytes of an element of what is added, which is written and read


def part_batch_sums(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Sums over a batch the gradients of each attention's scores, rather than their sum, where that moves fewer bytes. Returns how many it
    parted."""
    parted = 0
    for node in graph.find_nodes(op="call_function", target=aten.sum.dim_IntList):
        if node.meta["val"].device.type in devices and sums_batch(node):
            addends = list(_addends(node.args[0], node))
            if len(addends) > 1 and all(map(_is_of_scores, addends)) and _pays(node, addends):
                _part(graph, node, addends)
                parted += 1
    return parted


def _addends(value: Node, reader: Node) -> Iterator[Node]:
    """The addends, element by element and in order, of `value`, which `reader` alone reads."""
    alone = list(value.users) == [reader] and value.target in (aten.add.Tensor, aten._to_copy.default)
    if not alone or not _is_plain(value):
        yield value
        return
    for operand in value.all_input_nodes:
        yield from _addends(operand, value)


def _is_plain(node: Node) -> bool:
    """Whether `node` adds two different tensors of its size, or copies one, of floats."""
    sizes = node.meta["val"].shape
    like = all(x.meta["val"].shape == sizes and x.meta["val"].is_floating_point() for x in node.all_input_nodes)
    count = 2 if node.target is aten.add.Tensor else 1
    scaled = "alpha" in node.kwargs
    return like and not scaled and node.meta["val"].is_floating_point() and len(node.all_input_nodes) == count


def _is_of_scores(node: Node) -> bool:
    """Whether `node` is the gradient of an attention's scores, in 16 bits, or cast from that."""
    while node.target in (aten._to_copy.default, aten.view.default):
        node = node.args[0]
    of_bias = node.target is getitem and node.args[0].target is BACKWARD and node.args[1] == BIAS
    return (of_bias or node.target is aten._softmax_backward_data.default) and node.meta["val"].dtype in NARROW


def _pays(total: Node, addends: Sequence[Node]) -> bool:
    """Whether sums of each, written and read, are fewer bytes than all that is summed, where symbols are what they were seen with."""
    one, *counts = (prod(hint(size) or 0 for size in x.meta["val"].shape) for x in (total, *addends))
    whole = sum(count * x.meta["val"].element_size() for count, x in zip(counts, addends))
    return len(addends) * one * WIDE < whole


def _part(graph: Graph, total: Node, addends: Sequence[Node]) -> None:
    dims, *keep = total.args[1:]
    dtype = total.meta["val"].dtype
    added: Node | None = None
    for addend in addends:
        with graph.inserting_before(addend.next):
            own = call_like(graph, total, aten.sum.dim_IntList, addend, dims, *keep, dtype=torch.float32)
        with graph.inserting_before(total):
            added = own if added is None else call_like(graph, total, aten.add.Tensor, added, own)
    with graph.inserting_before(total):
        result = call_like(graph, total, aten._to_copy.default, added, dtype=dtype)
    total.replace_all_uses_with(result)
    value = total.args[0]
    graph.erase_node(total)
    _erase(graph, value, addends)


def _erase(graph: Graph, value: Node, addends: Sequence[Node]) -> None:
    """Erases `value`, and what it alone reads, up to `addends`."""
    if value not in addends:
        operands = value.all_input_nodes
        graph.erase_node(value)
        for operand in operands:
            _erase(graph, operand, addends)
