"""Matrix products of sizes that a GPU's tensor cores take badly, padded.

Rows that do not begin at multiples of 16 bytes (a vocabulary of 50257 in bf16) cost cuBLAS most of its speed, those of a result too: 8192x768 by
768x50257 takes 6.7 ms on an H200, 0.9 ms padded. The operands are padded with zeros and the result is cut: padding is fused into what makes an
operand, cutting into what reads the result.
"""

from collections.abc import Sequence

import torch
from torch.fx import Graph, Node

from .node_calls import call_like

aten = torch.ops.aten

ROW = 16  # bytes that a row's length should be a multiple of
DTYPES = (torch.float16, torch.bfloat16)
LEAST = 128  # a dimension below this: the product takes no longer than padding it
WORK = 1 << 32  # multiplications from which padding pays


def pad_products(graph: Graph, devices: Sequence[str] = ("cuda",)) -> None:
    """Pads the operands of each large `aten.mm` of static sizes on `devices` whose rows are not aligned. Every other node stays as it is."""
    padded: dict[tuple[Node, tuple[int, int]], Node] = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is aten.mm.default:
            widths = _widths(node, devices)
            if any(widths):
                _pad(graph, node, widths, padded)


def _widths(node: Node, devices: Sequence[str]) -> tuple[int, int, int]:
    """By how much to enlarge the sizes (m, k, n) of a product."""
    a, b = (operand.meta["val"] for operand in node.args)
    sizes = (*a.shape, b.shape[1])
    static = all(isinstance(size, int) for size in sizes) and all(
        isinstance(s, int) for s in (*a.stride(), *b.stride())
    )
    if a.device.type not in devices or a.dtype not in DTYPES or not static:
        return 0, 0, 0
    m, k, n = sizes
    if min(sizes) < LEAST or m * k * n < WORK:
        return 0, 0, 0
    along_m, along_k = a.stride(0) == 1, a.stride(1) == 1 or b.stride(0) == 1
    step = ROW // a.dtype.itemsize
    wanted = along_m, along_k, True  # the rows of the result run along n
    pm, pk, pn = (-size % step if needed else 0 for size, needed in zip(sizes, wanted))
    return pm, pk, pn


def _pad(graph: Graph, node: Node, widths: tuple[int, int, int], padded: dict) -> None:
    m, k, n = widths
    rows, columns = node.meta["val"].shape
    a, b = node.args
    with graph.inserting_before(node):
        product = call_like(
            graph, node, aten.mm.default, _enlarged(graph, a, (m, k), padded), _enlarged(graph, b, (k, n), padded)
        )
        if m:
            product = call_like(graph, node, aten.slice.Tensor, product, 0, 0, rows)
        if n:
            product = call_like(graph, node, aten.slice.Tensor, product, 1, 0, columns)
        result = call_like(graph, node, aten.clone.default, product, memory_format=torch.contiguous_format)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _enlarged(graph: Graph, operand: Node, widths: tuple[int, int], padded: dict) -> Node:
    """A matrix with zeros behind its rows and columns. A transposed one is padded as it lies in memory, once for all its readers."""
    if not any(widths):
        return operand
    if operand.target in (aten.permute.default, aten.t.default) and operand.op == "call_function":
        base = _enlarged(graph, operand.args[0], (widths[1], widths[0]), padded)
        return call_like(graph, operand, aten.permute.default, base, [1, 0])
    key = operand, widths
    if key not in padded:
        # Behind the operand, so that every reader follows; placeholders stay together.
        first = next(node for node in graph.nodes if node.op != "placeholder")
        behind = graph.inserting_before(first) if operand.op == "placeholder" else graph.inserting_after(operand)
        with behind:
            padded[key] = call_like(
                graph, operand, aten.constant_pad_nd.default, operand, [0, widths[1], 0, widths[0]], 0
            )
    return padded[key]
