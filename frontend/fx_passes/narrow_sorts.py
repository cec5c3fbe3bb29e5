"""Sorts of integers that a byte holds, as numbers of experts. A GPU sorts long rows by a pass for each byte of a key: eight of `int64`."""

from collections.abc import Sequence
from operator import getitem

import torch
from torch.fx import Graph, Node

from ..fx.integer_ranges import IntegerRanges
from ..fx.node_calls import arguments_of, call_like

aten = torch.ops.aten

BYTE = 255  # the greatest number that one holds
LONG = 4096  # elements of a row that PyTorch sorts without passes over memory, at most
WIDE = (torch.int16, torch.int32, torch.int64)


def narrow_sorts(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Sorts bytes for integers of which it is known that bytes hold them, in long rows. Returns how many sorts it changed.

    Equal elements stay in their order.
    """
    changed, ranges = 0, IntegerRanges()
    for target in (aten.sort.default, aten.sort.stable):
        for node in graph.find_nodes(op="call_function", target=target):
            if _is_long(node, devices) and all(user.target is getitem for user in node.users):
                found = ranges.of(node.args[0])
                if found is not None and found.least >= 0 and found.most <= BYTE:
                    _narrow(graph, node)
                    changed += 1
    return changed


def _is_long(node: Node, devices: Sequence[str]) -> bool:
    keys = node.args[0].meta["val"]
    if keys.device.type not in devices or keys.dtype not in WIDE or keys.dim() == 0:
        return False
    size = keys.shape[_dim(node)]
    return isinstance(size, int) and size > LONG


def _dim(node: Node) -> int:
    return arguments_of(node)[1 if node.target is aten.sort.default else 2]


def _narrow(graph: Graph, node: Node) -> None:
    keys, *_, descending = arguments_of(node)
    users = list(node.users)
    like = keys
    with graph.inserting_before(node):
        narrow = call_like(graph, like, aten._to_copy.default, keys, dtype=torch.uint8)
        sorted_ = call_like(graph, like, aten.sort.stable, narrow, stable=True, dim=_dim(node), descending=descending)
        values, places = sorted_.meta["val"]
        made = []
        for number, value in enumerate((values, places)):
            made.append(graph.call_function(getitem, (sorted_, number)))
            made[-1].meta = {**like.meta, "val": value}
        wide = call_like(graph, like, aten._to_copy.default, made[0], dtype=keys.meta["val"].dtype)
    for user in users:
        user.replace_all_uses_with((wide, made[1])[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
