"""Matrix products of sizes that a GPU's tensor cores take badly, padded where that is faster.

Rows that do not begin at multiples of 16 bytes (a vocabulary of 50257 in bf16) cost cuBLAS most of its speed, those of a result too: 8192x768 by
768x50257 takes 6.7 ms on an H200, 0.9 ms padded. The operands are padded with zeros and the result is cut: padding is fused into what makes an
operand, cutting into what reads the result, at its padded rows; a product takes these as they are. A result that leaves the graph, or
that a library's operator reads, is copied as it is cut, or stored so by a kernel that computes the product; whether the product gains more than
that is decided in `padding_costs.py`.
"""

from collections.abc import Sequence

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.node_calls import call_like
from ..fx.storages import is_view
from .attention_structure import COPIES
from .padding_costs import Widths, best_widths

aten = torch.ops.aten

ROW = 16  # bytes that a row's length should be a multiple of
DTYPES = (torch.float16, torch.bfloat16)
LEAST = 128  # a dimension below this: the product takes no longer than padding it
WORK = 1 << 32  # multiplications from which padding pays
PRODUCTS = (aten.mm.default, aten.addmm.default)


def pad_products(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Pads the operands of each large `aten.mm` or `aten.addmm` of a row, of static sizes on `devices`, whose rows are not aligned, if that
    is faster. Every other node stays as it is. Returns how many it padded."""
    padded: dict[tuple[Node, tuple[int, ...]], Node] = {}
    products = 0
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in PRODUCTS:
            widths = _widths(node, devices)
            if any(widths):
                _pad(graph, node, widths, padded)
                products += 1
    return products


def _widths(node: Node, devices: Sequence[str]) -> Widths:
    """By how much to enlarge the sizes (m, k, n) of a product."""
    *added, a, b = (operand.meta["val"] for operand in node.args)
    sizes = (*a.shape, b.shape[1])
    static = all(isinstance(size, int) for size in sizes) and all(
        isinstance(s, int) for s in (*a.stride(), *b.stride())
    )
    if a.device.type not in devices or a.dtype not in DTYPES or not static:
        return 0, 0, 0
    if any(x.shape != (sizes[2],) for x in added):
        return 0, 0, 0  # a matrix is added: it would be copied, padded
    m, k, n = sizes
    if min(sizes) < LEAST or m * k * n < WORK:
        return 0, 0, 0
    # By sizes: 30522 elements of rows that are 30528 apart cuBLAS takes no faster (H200, 2026-11-30, `python -m benchmarks.products`).
    along_m, along_k = a.stride(0) == 1, a.stride(1) == 1 or b.stride(0) == 1
    step = ROW // a.dtype.itemsize
    needed = along_m, along_k, True  # the rows of the result run along n
    pm, pk, pn = (-size % step if rows else 0 for size, rows in zip(sizes, needed))
    return best_widths(sizes, (pm, pk, pn), a.dtype.itemsize, _is_copied(node))


def _is_copied(node: Node) -> bool:
    """Whether something reads the result of a product that cannot read it at padded rows: all but products, and what kernels fuse."""
    return not all(not _is_copied(user) if is_view(user) else _reads_rows(user) for user in node.users)


def _reads_rows(user: Node) -> bool:
    tags = user.target.tags if isinstance(user.target, OpOverload) else ()
    fused = torch.Tag.pointwise in tags or torch.Tag.reduction in tags or user.target in COPIES
    return fused or user.target in PRODUCTS


def _pad(graph: Graph, node: Node, widths: Widths, padded: dict) -> None:
    m, k, n = widths
    rows, columns = node.meta["val"].shape
    *added, a, b = node.args
    with graph.inserting_before(node):
        operands = [_enlarged(graph, x, (n,), padded) for x in added]
        operands += [_enlarged(graph, a, (m, k), padded), _enlarged(graph, b, (k, n), padded)]
        result = call_like(graph, node, node.target, *operands, **node.kwargs)
        if m:
            result = call_like(graph, node, aten.slice.Tensor, result, 0, 0, rows)
        if n:
            result = call_like(graph, node, aten.slice.Tensor, result, 1, 0, columns)
            node.replace_all_uses_with(result, lambda user: user.target in PRODUCTS)
            result = call_like(graph, node, aten.clone.default, result, memory_format=torch.contiguous_format)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _enlarged(graph: Graph, operand: Node, widths: tuple[int, ...], padded: dict) -> Node:
    """A row or a matrix with zeros behind its elements, or its rows and columns. A transposed one is padded as it lies in memory, once for
    all its readers."""
    if not any(widths):
        return operand
    if operand.target in (aten.permute.default, aten.t.default) and operand.op == "call_function":
        base = _enlarged(graph, operand.args[0], widths[::-1], padded)
        return call_like(graph, operand, aten.permute.default, base, [1, 0])
    key = operand, widths
    if key not in padded:
        # Behind the operand, so that every reader follows; placeholders stay together.
        first = next(node for node in graph.nodes if node.op != "placeholder")
        behind = graph.inserting_before(first) if operand.op == "placeholder" else graph.inserting_after(operand)
        with behind:
            ends = [end for width in reversed(widths) for end in (0, width)]
            padded[key] = call_like(graph, operand, aten.constant_pad_nd.default, operand, ends, 0)
    return padded[key]
