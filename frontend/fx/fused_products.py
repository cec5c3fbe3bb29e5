"""Products in FX graphs that are not for a library: they are computed with others, in the kernels of an attention."""

from collections.abc import Iterable

import torch
from torch.fx import Graph, Node

FUSED_PRODUCT = "fused_product"  # in the metadata of such a product
LEAST, DEEPEST = 16, 256  # elements of a head: what the kernels take

aten = torch.ops.aten


def mark(nodes: Iterable[Node]) -> None:
    """Marks the products among `nodes`."""
    for node in nodes:
        if node.target is aten.bmm.default:
            node.meta[FUSED_PRODUCT] = True


def mark_products(graph: Graph) -> None:
    """Marks the products of `graph`, an attention, where the kernels take its heads: of each product either what is summed or the columns."""
    products = graph.find_nodes(op="call_function", target=aten.bmm.default)
    sizes = [size for node in products for size in (*sizes_of(node.args[0]), *sizes_of(node))]
    if all(isinstance(size, int) and size > 0 for size in sizes):
        heads = [min(sizes_of(node.args[0])[-1], sizes_of(node)[-1]) for node in products]
        mark(products if all(LEAST <= n <= DEEPEST for n in heads) else [])


def sizes_of(node: Node) -> list[int]:
    return [*node.meta["val"].shape]
