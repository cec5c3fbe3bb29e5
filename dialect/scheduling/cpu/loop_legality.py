"""Legality of loop transformations of a kernel: collapsing ranges into one, running points in any order."""

from collections.abc import Iterator, Sequence

from ...analysis.affine.affine_forms import Atoms, from_expr, multiply
from ...analysis.affine.linear_forms import linear
from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import ACCESSES, Block, Dependence, Node
from ...ir.shapes import expr, layout_of
from ...mlir import ir

Groups = tuple[tuple[int, ...], ...]  # ranges of a loop, neighbours that are walked as one together


def length(body: Body, block: Block, group: Sequence[int]) -> int | None:
    """The number of points of the ranges `group` of a loop, if it is known."""
    total = 1
    for i in group:
        size = body.extents[block.arguments[i]]
        if size is None:
            return None
        total *= size
    return total


def places(block: Block) -> Iterator[tuple[Node, Dependence]]:
    """Of accesses and of random numbers, with these."""
    for node in block.walk():
        place = node.address if node.position is None else node.position
        if place is not None:
            yield node, place


def together(body: Body, block: Block, outer: int, inner: int) -> bool:
    """Whether the indices `outer` and `inner` of a loop, neighbours, can be walked as one index outer * size + inner: every address,
    and position of a random number, depends on them as on that."""
    size = body.extents[inner]
    if outer in body.opaque or inner in body.opaque:
        return False
    if size is None:
        return _together_by_symbols(body, block, outer, inner)
    for _, place in places(block):
        a, b = place.get(outer, 0), place.get(inner, 0)
        if a is None or b is None or a != b * size:
            return False
    return True


def _together_by_symbols(body: Body, block: Block, outer: int, inner: int) -> bool:
    """The same where the size of `inner` is not known: of accesses at the loops' indices themselves, by the symbols in their steps."""
    atoms = Atoms()
    size = from_expr(body.sizes[inner], atoms)
    for node, place in places(block):
        if place.keys().isdisjoint((outer, inner)):
            continue
        steps = None if node.address is None else _symbolic_steps(body, node, (outer, inner))
        if steps is None:
            return False
        a, b = (from_expr(step, atoms) for step in steps)
        if a != multiply(b, size):
            return False
    return True


def _symbolic_steps(body: Body, access: Node, of: tuple[int, int]) -> list[ir.AffineExpr] | None:
    """By which the offset of an access grows with each of two indices of a loop, symbols among them; None where others are computed of these."""
    source, *indices = access.operands[ACCESSES[access.name] - 1 :]
    form, steps = linear(layout_of(body.types[source]).results[0]), [expr(0), expr(0)]
    for dim, index in enumerate(indices):
        if index in of:
            if dim in form.opaque:
                return None
            steps[of.index(index)] = expr(steps[of.index(index)] + form.steps.get(dim, 0))
        elif not body.dependence.get(index, {}).keys().isdisjoint(of):
            return None
    return steps


def group_ranges(body: Body, block: Block) -> Groups:
    """The ranges of a loop, neighbours together where they can be. A range of 1 is in no group: its index is 0."""
    groups: list[list[int]] = []
    for i, argument in enumerate(block.arguments):
        if body.extents[argument] == 1:
            continue
        if groups and together(body, block, block.arguments[groups[-1][-1]], argument):
            groups[-1].append(i)
        else:
            groups.append([i])
    return tuple(map(tuple, groups))


def colliding(body: Body, block: Block) -> set[int]:
    """Indices of a loop of which two values may store to one place, so that the order of points says what is left there."""
    several = [a for a in block.arguments if body.extents[a] != 1]
    places: dict[int, list[Sequence[int]]] = {}  # of each buffer, the indices of its stores
    for node in block.walk():
        if node.name == "bascule.store":
            places.setdefault(node.operands[1], []).append(node.operands[2:])
    found: set[int] = set()
    for stores in places.values():
        # Stores of one point may meet those of another but along dims where all have one index.
        shared = {dim[0] for dim in zip(*stores) if len(set(dim)) == 1}
        apart = set().union(*(_told_apart(body, body.dependence.get(i, {})) for i in shared))
        found.update(a for a in several if a not in apart)
    return found


def _told_apart(body: Body, index: Dependence) -> set[int]:
    """The loop indices that one index of a store tells apart: all that it depends on, where it is a number with those digits."""
    digits = sorted(index.items(), key=lambda item: abs(item[1] or 0))
    reach: int | None = 0  # the largest distance that the digits so far make
    for argument, weight in digits:
        if weight is None or weight == 0 or reach is None or abs(weight) <= reach:
            return set()
        size = body.extents.get(argument)
        reach = None if size is None else reach + abs(weight) * max(0, size - 1)
    return set(index)


def moving_reads(block: Block, lane: int) -> list[Node]:
    """The reads at the top of a loop's body that run along memory with the index `lane`, from another place at each point around the loop."""
    return [
        node
        for node in block.nodes
        if node.address is not None
        and node.results
        and node.address.get(lane) == 1
        and any(step != 0 for index, step in node.address.items() if index != lane)
    ]


def slice_of(block: Block, node: Node) -> list[Node]:
    """The nodes of `block` that compute the indices of `node`, in order."""
    needed, nodes = set(node.operands[1:]), []
    for other in reversed(block.nodes):
        if needed & set(other.results):
            needed.update(other.operands)
            nodes.append(other)
    return nodes[::-1]


def reads_along(block: Block, groups: Groups, lanes: int, group: int) -> list[Node]:
    """The reads at the top of a loop's body that run along memory with `group`, and not with the group `lanes`: worth reading as tiles
    that are transposed in registers."""
    lane, along = (block.arguments[groups[g][-1]] for g in (lanes, group))
    return [
        node
        for node in block.nodes
        if node.address is not None
        and node.results
        and node.address.get(lane, 0) not in (0, 1)
        and node.address.get(along) == 1
        and all(other.name in ("affine.apply", "arith.constant") for other in slice_of(block, node))
    ]
