"""The order in which memory runs through the indices of loops, by what is accessed inside of them."""

from collections import Counter
from collections.abc import Sequence

from ...ir.shapes import constant
from ...mlir import ir
from .body_summary import Access, Body
from .body_tree import POSITIONS, Node
from .costs import magnitude

LARGE = 1 << 40  # above all steps


class MemoryOrder:
    """The accesses to memory inside of `node`, a loop of `body`, which is decoded with indexing. Indices are numbers of `body`; where sizes are
    dynamic, steps are compared as if each symbol were the same number."""

    def __init__(self, body: Body, node: Node):
        self.body, self.accesses = body, body.placed(node)
        self.along: Counter[int] = Counter()  # bytes accessed with neighbours along each index
        for access in self.accesses:
            for index in access.form.steps:
                if access.form.adjacent(index):
                    self.along[index] += self.bytes(access)

    def bytes(self, access: Access) -> int:
        """About how many bytes an access touches."""
        return access.width * magnitude([size for index, size in self.body.sizes.items() if access.form.varies(index)])

    def loop_order(self, loop: Node) -> list[int]:
        """The ranges of a loop, as numbers, slowest in memory first."""
        ordered = loop.name == "bascule.scan" or (
            loop.name == "bascule.reduce" and not set(POSITIONS).isdisjoint(loop.kinds)
        )
        if ordered:  # what they compute is the order
            return list(range(len(loop.indices)))
        return self.order(loop.indices, loop.sizes)

    def order(self, indices: Sequence[int], sizes: Sequence[ir.AffineExpr]) -> list[int]:
        """The indices, slowest in memory first: as the heaviest access along the index that memory mostly runs along, of those that run evenly
        along all, if there are such."""
        order = list(range(len(indices)))
        if not order:
            return order
        main = max(order, key=lambda n: (self.along[indices[n]], n))
        if not self.along[indices[main]] or all(constant(size) == 1 for size in sizes[main + 1 :]):
            return order
        guides = [access for access in self.accesses if access.form.adjacent(indices[main])]
        even = [access for access in guides if not any(index in access.form.opaque for index in indices)]
        guide = max(even or guides, key=lambda access: (self.bytes(access), access.stores))
        # Indices that the guide does not vary with, and those of size 1, go first.
        keys = [
            LARGE if constant(size) == 1 else _distance(guide, index) or LARGE for index, size in zip(indices, sizes)
        ]
        return sorted(order, key=lambda n: -keys[n])


def _distance(access: Access, index: int) -> int:
    """About how many elements lie between neighbours along an index; 0: none."""
    step = access.form.steps.get(index, 0)
    return abs(step) if isinstance(step, int) else magnitude([step])
