"""The work of a pointwise body that each of its points does anew: what does not depend on its last index is done once along that."""

from collections.abc import Callable
from math import prod

from ..analysis.bodies.body_summary import Body
from ..analysis.bodies.body_tree import ACCESSES, Block
from ..analysis.bodies.costs import magnitude, op_cost
from ..mlir import ir

BYTE = 1.0  # work that takes as long as moving a byte to or from memory


def own_work(body: Body, read: Callable[[ir.Value], float]) -> float:
    """In additions, for one of the points of `body`, which has no loops inside.

    The label of a row, read and clamped in a body over rows and classes, counts almost nothing: a tile, or a loop of a CPU, has it once a row.
    What depends on the class alone counts in full, for tiles of other rows do it again. `read(tensor)` is what an element of a tensor takes, in
    the same unit.
    """
    sizes = [magnitude([size]) for size in body.root.sizes]

    def share(depends: frozenset[int]) -> float:
        """Of the points those that are told apart by what stands before the last indices, on which nothing depends."""
        return 1 / prod(max(1, size) for size in sizes[max(depends, default=-1) + 1 :])

    return _Walk(share, read).work(body)


def joint_work(body: Body, read: Callable[[ir.Value], float]) -> float:
    """The same, of what depends on several indices: what one alone decides is done once for a row or a column of a tile."""
    return _Walk(lambda depends: float(len(depends) > 1), read).work(body)


class _Walk:
    """`share`: of the points those that do anew what depends on such indices."""

    def __init__(self, share: Callable[[frozenset[int]], float], read: Callable[[ir.Value], float]):
        self.share, self.read = share, read
        self.known: dict[ir.Value, frozenset[int]] = {}  # which indices a value depends on

    def work(self, body: Body) -> float:
        indices = body.op.regions[0].blocks[0].arguments
        self.known |= {index: frozenset([place]) for place, index in enumerate(indices)}
        return self._visit(body.block)[0]

    def _visit(self, block: Block) -> tuple[float, frozenset[int]]:
        """The work of a block, and which indices the values depend on that it yields."""
        total = 0.0
        for node in block.nodes:
            operands = list(node.op.operands)
            depends = self._of(operands)
            for inner in node.blocks:
                work, yielded = self._visit(inner)
                total += work
                depends |= yielded
            for result in node.op.results:
                self.known[result] = depends
            cost = self.read(operands[0]) if node.name in ACCESSES else op_cost(node.name)
            total += cost * self.share(depends)
        return total, self._of(list(block.end.operands)) if block.end is not None else frozenset()

    def _of(self, values: list[ir.Value]) -> frozenset[int]:
        return frozenset[int]().union(*(self.known[value] for value in values if value in self.known))
