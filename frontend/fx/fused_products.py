"""Products in FX graphs that are not for a library: they are computed with others, in the kernels of an attention."""

from collections.abc import Iterable, Sequence

import torch
from torch.fx import Graph, Node

from .trace_context import known

FUSED_PRODUCT = "fused_product"  # in the metadata of such a product
LEAST, DEEPEST = 16, 512  # elements of a head: what the kernels take

aten = torch.ops.aten


def mark(nodes: Iterable[Node]) -> None:
    """Marks the products among `nodes`."""
    for node in nodes:
        if node.target is aten.bmm.default:
            node.meta[FUSED_PRODUCT] = True


def mark_products(graph: Graph) -> None:
    """Marks the products of `graph`, an attention, where the kernels take its heads: of each product either what is summed or the columns. The
    batch and the number of keys may change from call to call."""
    products = graph.find_nodes(op="call_function", target=aten.bmm.default)
    if all(known(size > 0) for node in products for size in (*sizes_of(node.args[0]), *sizes_of(node))):
        sides = [(sizes_of(node.args[0])[-1], sizes_of(node)[-1]) for node in products]
        mark(products if all(map(_has_head, sides)) else [])


def _has_head(sizes: Iterable[int | torch.SymInt]) -> bool:
    """Whether one of the sizes is that of a head; the other may change from call to call."""
    heads = [size for size in sizes if isinstance(size, int)]
    return bool(heads) and LEAST <= min(heads) <= DEEPEST


def are_alike(sizes: Sequence[int | torch.SymInt], others: Sequence[int | torch.SymInt]) -> bool:
    """Whether sizes are the same whatever their symbols are, without a guard."""
    return len(sizes) == len(others) and all(known(a == b) for a, b in zip(sizes, others))


def sizes_of(node: Node) -> list[int]:
    return [*node.meta["val"].shape]
