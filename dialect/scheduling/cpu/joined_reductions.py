"""Reductions of one block over the same ranges, none of which needs another: joined into one loop, which reads its operands once."""

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import Block, Node

Joins = dict[Node, Node]  # a reduction -> the one whose loop it is in


def join_siblings(body: Body, chosen: Joins | None = None) -> Joins:
    """Joins reductions of the kernel's block and of the blocks inside it: all that can be, or those of `chosen`. Returns
    what it has joined; `body` then has one node for each loop."""
    joined: Joins = {}
    _join(body, body.block, chosen, joined)
    return joined


def _join(body: Body, block: Block, chosen: Joins | None, joined: Joins) -> None:
    for node in block.nodes:
        for inner in node.blocks:
            _join(body, inner, chosen, joined)
    nodes: list[Node] = []
    waiting = list(block.nodes)
    while waiting:
        node = waiting.pop(0)
        if node.name == "bascule.reduce":
            waiting = _absorb(body, node, waiting, nodes, chosen, joined)
        nodes.append(node)
    block.nodes[:] = nodes


def _absorb(
    body: Body, first: Node, following: list[Node], before: list[Node], chosen: Joins | None, joined: Joins
) -> list[Node]:
    """Moves what it can of `following` into the reduction `first`; what that needs goes to `before`. Returns the rest."""
    rest: list[Node] = []
    behind = set(first.results)  # values that are known only after `first`, or that stay behind it
    movable: list[Node] = []
    for node in following:
        used = _used(node)
        same = node.name == "bascule.reduce" and node.op.attributes["ranges"] == first.op.attributes["ranges"]
        if chosen is not None:
            same = same and chosen.get(node) is first
        if used & behind or node.name in ("bascule.store", "bascule.foreach"):
            behind.update(node.results)
            rest.append(node)
        elif same:
            needed = _needed(used, movable)
            before += needed
            movable = [other for other in movable if other not in needed]
            rest = [other for other in rest if other not in needed]
            _merge(body, first, node)
            joined[node] = first
            behind.update(node.results)
        else:
            movable.append(node)
            rest.append(node)
    return rest


def _needed(values: set[int], nodes: list[Node]) -> list[Node]:
    """Those of `nodes` that `values` come from, in order."""
    found = []
    for node in reversed(nodes):
        if values & set(node.results):
            values = values | _used(node)
            found.append(node)
    return found[::-1]


def _used(node: Node) -> set[int]:
    used = set(node.operands)
    for block in node.blocks:
        used.update(block.yielded)
        for inner in block.nodes:
            used |= _used(inner)
    return used


def _merge(body: Body, into: Node, node: Node) -> None:
    target, source = into.blocks[0], node.blocks[0]
    names = dict(zip(source.arguments, target.arguments))
    body.opaque.update(names[n] for n in source.arguments if n in body.opaque)
    _rename(body, source, names)
    target.nodes += source.nodes
    target.yielded += source.yielded
    into.kinds += node.kinds
    into.results += node.results
    into.types += node.types


def _rename(body: Body, block: Block, names: dict[int, int]) -> None:
    block.yielded = [names.get(n, n) for n in block.yielded]
    for node in block.nodes:
        node.operands = [names.get(n, n) for n in node.operands]
        if node.address is not None:
            node.address = {names.get(n, n): c for n, c in node.address.items()}
        if node.position is not None:
            node.position = {names.get(n, n): c for n, c in node.position.items()}
        for result in node.results:
            known = body.dependence.get(result)
            if known is not None:
                body.dependence[result] = {names.get(n, n): c for n, c in known.items()}
        for inner in node.blocks:
            _rename(body, inner, names)
