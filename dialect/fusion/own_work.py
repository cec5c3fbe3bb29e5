"""The work of a pointwise body that each of its points does anew: what does not depend on its last index is done once along that."""

from collections.abc import Callable
from math import prod

from ..analysis.bodies.body_summary import Body
from ..analysis.bodies.body_tree import ACCESSES, Block
from ..analysis.bodies.costs import magnitude, op_cost
from ..mlir import ir


def own_work(body: Body, read: Callable[[ir.Value], float]) -> float:
    """In additions, for one of the points of `body`, which has no loops inside.

    The label of a row, read and clamped in a body over rows and classes, counts almost nothing: a tile, or a loop of a CPU, has it once a row.
    What depends on the class alone counts in full, for tiles of other rows do it again. `read(tensor)` is what an element of a tensor takes, in
    the same unit.
    """
    sizes = [magnitude([size]) for size in body.root.sizes]
    return _Walk(sizes, read).work(body.block, list(body.op.regions[0].blocks[0].arguments))


class _Walk:
    def __init__(self, sizes: list[int], read: Callable[[ir.Value], float]):
        self.sizes, self.read = sizes, read
        self.known: dict[ir.Value, frozenset[int]] = {}  # which indices a value depends on

    def work(self, block: Block, indices: list[ir.Value]) -> float:
        self.known |= {index: frozenset([place]) for place, index in enumerate(indices)}
        return self._visit(block)[0]

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
            total += cost * self._share(depends)
        return total, self._of(list(block.end.operands)) if block.end is not None else frozenset()

    def _of(self, values: list[ir.Value]) -> frozenset[int]:
        return frozenset[int]().union(*(self.known[value] for value in values if value in self.known))

    def _share(self, depends: frozenset[int]) -> float:
        """Of the points those that are told apart by what stands before the last indices, on which nothing depends."""
        return 1 / prod(max(1, size) for size in self.sizes[max(depends, default=-1) + 1 :])
