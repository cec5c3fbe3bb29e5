"""Views that a graph returns and the IR cannot tell to be views: they run by themselves."""

from operator import getitem

import sympy
import torch
from torch.fx import Graph, Node

from ..fx.graph_ends import VISIBLE, inputs_of, outputs_of
from ..fx.storages import storage_of

aten = torch.ops.aten
REASON = "a view of an input that is returned, of sizes that are only known when it runs"
OTHERWISE = "a view that is returned, of another dtype, conjugated or negated"
WRITTEN = "an input's new value, of a view of which the place in memory is returned"
# Their results lie in memory as their first operands do, though fake ones begin at 0.
_LIKE_FIRST = (
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
)


def returned_views(graph: Graph) -> dict[Node, str]:
    """The nodes between an input and a result that shares its memory, where one of them reshapes a tensor with gaps of dynamic sizes, with the
    reason; those of dynamic sizes between a result and an operator whose own result does not begin where its memory does (`slice_scatter`
    into an input that does not); and those of a result that has the bits of what it views otherwise. AOTAutograd takes strides and offset of
    the result as it is given it: a copy would be read from the wrong place."""
    found = dict.fromkeys(_read_otherwise(graph), OTHERWISE)
    inputs = {storage_of(node) for node in inputs_of(graph)} - {None}
    for node in graph.output_node().all_input_nodes:
        chain: list[Node] = []
        while node.op == "call_function" and storage_of(node) in inputs and (near := _viewed(node)):
            chain += (node, *near[:-1])
            node = near[-1]
        if any(_reshapes_gaps(link) for link in chain):
            found |= {link: REASON for link in chain}
        found |= dict.fromkeys(_begins_elsewhere(node, inputs), WRITTEN)
    return {node: found[node] for node in graph.nodes if node in found}


def _read_otherwise(graph: Graph) -> set[Node]:
    """The nodes from the first that takes the bits of a tensor otherwise up to a result in its memory. Users see who shares memory, and
    AOTAutograd asks for base, dtype and bits, to make the result again of an input or of another result."""
    found: set[Node] = set()
    for node in outputs_of(graph)[: graph.output_node().meta.get(VISIBLE)]:
        if isinstance(node, Node) and storage_of(node) is not None:
            chain, number = [node], 0
            while (
                chain[-1].op == "call_function"
                and (near := _viewed(chain[-1]))
                and storage_of(near[-1]) == storage_of(node)
            ):
                if _bits(near[-1]) != _bits(chain[-1]):
                    number = len(chain) + len(near) - 1
                chain += near
            found |= {*chain[:number]}
    return found


def _bits(node: Node) -> tuple[torch.dtype, bool, bool]:
    value = node.meta["val"]
    return value.dtype, value.is_conj(), value.is_neg()


def _begins_elsewhere(node: Node, inputs: set[int | None]) -> list[Node]:
    """A result, what it is a view of, and so on to the operator that makes their memory, if its own result begins elsewhere in it."""
    storage, chain = storage_of(node), [node]
    if node.op != "call_function" or storage is None or storage in inputs:
        return []
    while (near := _viewed(chain[-1])) and near[-1].op == "call_function" and storage_of(near[-1]) == storage:
        chain += near
    while chain[-1].target in _LIKE_FIRST and chain[-1].all_input_nodes[0].target in _LIKE_FIRST:
        chain.append(chain[-1].all_input_nodes[0])
    first = chain[-1]
    values = [x.meta["val"] for x in (node, first, *(first.all_input_nodes[:1] if first.target in _LIKE_FIRST else ()))]
    numbers = [n for x in values for n in (*x.shape, *x.stride(), x.storage_offset())]
    dynamic = any(isinstance(n, torch.SymInt) for n in numbers)
    return chain if dynamic and any(_expression(x.storage_offset()) != 0 for x in values[1:]) else []


def _viewed(node: Node) -> list[Node]:
    """The first operand of `node`; of one of several results (`split`) after their operator."""
    near = node.all_input_nodes[:1]
    return [*near, *near[0].all_input_nodes[:1]] if node.target is getitem else near


def _reshapes_gaps(node: Node) -> bool:
    if node.target not in (aten.view.default, aten._unsafe_view.default, aten.reshape.default):
        return False
    source, row_major = node.all_input_nodes[0].meta["val"], sympy.Integer(1)
    if not any(isinstance(size, torch.SymInt) for size in source.shape):
        return False
    for size, stride in zip(reversed(source.shape), reversed(source.stride())):
        if _expression(stride) != row_major:
            return True
        row_major *= _expression(size)
    return False


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    """A size without asking its environment, which would guard on the answer."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
