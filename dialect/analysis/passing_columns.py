"""Reductions of columns that may go along with the rows: a `foreach` whose reductions take in the points of an earlier `foreach` as they pass.

    foreach rows r:     row work, stores
    foreach columns j:  reduce over r: ...; stores

The reductions may run after every few rows, while what they read of them is still near: nothing of what they read is written by the rows.
"""

from ..mlir import ir
from .kernel_bodies import ACCUMULATORS, LOOPS, READS, Block, Body, Node

SCRATCH_BYTES = 1 << 16  # of accumulators, on a thread's stack
KINDS = ("sum", "prod", "max", "min", "maxu", "minu", "welford", "softmax")


def may_go_along(body: Body, block: Block, columns: Node, rows: Node) -> bool:
    """Whether the reductions directly in the foreach `columns` may take in the points of the foreach `rows` as they pass; both are in
    `block`, siblings joined. Their order over the points stays the same."""
    nodes = block.nodes
    if any(node not in nodes or node.name != "bascule.foreach" for node in (columns, rows)):
        return False
    first, last = nodes.index(rows), nodes.index(columns)
    if first >= last:
        return False
    index = _single(body, columns)
    points = _points(body, rows)
    inside = [node for node in columns.blocks[0].walk() if node.name in LOOPS]
    if index is None or points is None or not inside or any(not _fits(body, node, index, points) for node in inside):
        return False
    if any(node not in columns.blocks[0].nodes for node in inside):
        return False
    between = nodes[first:last]
    known_later = {number for node in between for number in node.results}
    written = {node.operands[1] for node in _walk([*between, columns]) if node.name == "bascule.store"}
    needed = _needed(columns.blocks[0])
    return not any(
        set(node.operands) & known_later or (node.name in READS and node.operands[0] in written) for node in needed
    )


def reductions(columns: Node) -> list[Node]:
    return [node for node in columns.blocks[0].nodes if node.name == "bascule.reduce"]


def columns_bytes(body: Body, columns: Node, lanes: int) -> int:
    """Of the accumulators of all columns, whole vectors of `lanes`."""
    size = _points(body, columns) or 0
    widths = (
        ACCUMULATORS.get(kind, 1) * body.types[number].width // 8
        for node in reductions(columns)
        for kind, number in zip(node.kinds, node.blocks[0].yielded)
    )
    return -(-size // lanes) * lanes * sum(widths)


def before_reductions(block: Block) -> list[Node]:
    """The nodes of a foreach of columns that its reductions may need: all that do not come from them."""
    behind, found = set[int](), []
    for node in block.nodes:
        if node.name in ("bascule.reduce", "bascule.store") or behind & _used(node):
            behind.update(node.results)
        else:
            found.append(node)
    return found


def _needed(block: Block) -> list[Node]:
    """What runs as the rows pass."""
    found = list(_walk(before_reductions(block)))
    return found + [inner for node in block.nodes if node.name == "bascule.reduce" for inner in node.blocks[0].walk()]


def _used(node: Node) -> set[int]:
    return {number for inner in _walk([node]) for number in inner.operands}


def _walk(nodes: list[Node]) -> list[Node]:
    return [inner for node in nodes for inner in (node, *(n for block in node.blocks for n in block.walk()))]


def _single(body: Body, node: Node) -> int | None:
    """The index of a loop that has one of a known size, ranges of 1 left out."""
    several = [a for a in node.blocks[0].arguments if body.extents[a] != 1]
    return several[0] if len(several) == 1 and body.extents[several[0]] is not None else None


def _points(body: Body, node: Node) -> int | None:
    index = _single(body, node)
    return None if index is None else body.extents[index]


def _fits(body: Body, node: Node, index: int, points: int) -> bool:
    if node.name != "bascule.reduce" or _points(body, node) != points or any(kind not in KINDS for kind in node.kinds):
        return False
    types = [body.types[number] for number in node.blocks[0].yielded]
    plain = all(
        isinstance(t, ir.F32Type | ir.F64Type) or (isinstance(t, ir.IntegerType) and t.width >= 8) for t in types
    )
    return plain and all(index in body.dependence.get(number, ()) for number in node.results)
