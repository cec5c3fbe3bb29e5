"""Loop fission: the ops of a loop's region in phases, which many points of the loop go through one phase after the other.

In even phases a point is by itself, as the loops in it have lanes of their own; in odd ones the points are lanes, as functions that take long
want. What a phase needs of an earlier one is kept for all points (scalar expansion).
"""

from dataclasses import dataclass

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import ACCESSES, Block, Node
from ...analysis.bodies.costs import COSTS
from ...mlir import ir


@dataclass(frozen=True)
class Phase:
    """`nodes` in program order, those of indices and constants in each phase that uses them; `needs`: the values that earlier phases kept."""

    nodes: list[Node]
    needs: list[int]
    keeps: list[int]


def is_long(node: Node) -> bool:
    """Whether an op is as long as a call of a function."""
    return node.name in ("bascule.random", "math.absi") or (node.name.startswith("math.") and node.name not in COSTS)


def phases(body: Body, block: Block) -> list[Phase]:
    """Those of the loop whose region is `block`; none where no op that takes long stands beside a loop, or what would be kept is no number."""
    levels = _levels(block)
    if not any(is_long(node) and levels.get(node, 0) % 2 for node in block.nodes):
        return []
    made = {value: level for node, level in levels.items() for value in node.results}
    parts = [_nodes(block, levels, level) for level in range(max(levels.values()) + 1)]
    needs = [
        sorted({value for node in part for value in node.uses() if made.get(value, k) < k})
        for k, part in enumerate(parts)
    ]
    kept = {value for part in needs for value in part}
    if any(not isinstance(body.types[value], ir.IntegerType | ir.FloatType) for value in kept):
        return []
    return [Phase(part, needs[k], sorted(v for v in kept if made[v] == k)) for k, part in enumerate(parts)]


def _levels(block: Block) -> dict[Node, int]:
    """The phase of each op but those that are repeated. A store stays behind all accesses before it, and what reads its buffer behind it:
    buffers may share memory."""
    levels, made = dict[Node, int](), dict[int, int]()
    accessed, stored = 0, dict[int, int]()
    for node in block.nodes:
        if _is_repeated(node, made):
            continue
        level = max((made[value] for value in node.uses() if value in made), default=0)
        inside = [each for each in Block([], [node], []).walk() if each.name in ACCESSES]
        level = max([level, *(stored.get(_buffer(access), 0) for access in inside)])
        stores = [_buffer(access) for access in inside if access.name == "bascule.store"]
        if stores:
            level = max(level, accessed)
        if node.blocks or is_long(node):
            level += (level + bool(not node.blocks)) % 2
        levels[node] = level
        made.update(dict.fromkeys(node.results, level))
        stored.update(dict.fromkeys(stores, level))
        if inside:
            accessed = max(accessed, level)
    return levels


def _is_repeated(node: Node, made: dict[int, int]) -> bool:
    """Whether an op costs less where it is used than kept: one of indices and constants."""
    return not (node.blocks or node.name in ACCESSES or is_long(node)) and not any(
        value in made for value in node.operands
    )


def _buffer(access: Node) -> int:
    return access.operands[ACCESSES[access.name] - 1]


def _nodes(block: Block, levels: dict[Node, int], level: int) -> list[Node]:
    """The ops of a phase, in order: its own, and the repeated ones that they use."""
    used, found = set[int](), list[Node]()
    for node in reversed(block.nodes):
        own = levels.get(node)
        if own == level or (own is None and used & set(node.results)):
            used.update(node.uses())
            found.append(node)
    return found[::-1]
