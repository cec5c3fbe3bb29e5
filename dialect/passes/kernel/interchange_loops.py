"""The pass `interchange-loops`: the indices of loops stand in the order in which memory runs through them."""

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import Body, decode
from ...analysis.bodies.body_tree import Block, Node
from ...analysis.bodies.memory_order import MemoryOrder
from ...ir.builders import symbols_of
from ...ir.functions import functions, kernel_op
from ...ir.shapes import constant, size_map
from ...mlir import ir
from ...scheduling.cpu.loop_legality import colliding
from ..base import EITHER, Pass, check_target


@dataclass(frozen=True)
class InterchangeLoops(Pass):
    """Takes kernel functions before schedules. On `target` cpu, whose schedules walk ranges in their order, leaves a kernel, and each `foreach`
    and `reduce` in it, with its indices from the slowest in memory to the fastest, as the heaviest access has them: those of channels-last
    images are (n, h, w, c), which is one index of memory then.

    Left as they are: loops of which two points may store to one place, reductions to a position, and loops that walk rows kept near the
    processor, which are row-major. Reductions over equal ranges of one region, which run as one loop, stay equal.
    """

    name: ClassVar[str] = "interchange-loops"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target != "cpu":
            return
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None and _has_several(kernel):
                    _Kernel(decode(kernel, indexing=Indexing(symbols_of(function), simplifier))).interchange()


def _has_several(kernel: ir.Operation) -> bool:
    """Whether there is a loop of several ranges, at the top: most kernels have but one range, and no order."""
    loops = [kernel, *(view.operation for view in kernel.regions[0].blocks[0].operations)]
    return any(len(op.attributes["ranges"].value.results) > 1 for op in loops if "ranges" in op.attributes)


class _Kernel:
    """One kernel, decoded with indexing."""

    def __init__(self, body: Body):
        self.body, self.memory = body, MemoryOrder(body, body.root)
        self.near = {access.loops[-1] for access in body.accesses(body.root) if access.is_near}

    def interchange(self) -> None:
        orders = {self.body.root: self._order(self.body.root)}
        self._inside(self.body.block, orders)
        for node, order in orders.items():
            if order != sorted(order):
                _permute(node.op, order)

    def _inside(self, block: Block, orders: dict[Node, list[int]]) -> None:
        """Orders of the loops in a region. Reductions over equal ranges have that of the first."""
        reductions = list[Node]()
        for node in block.nodes:
            if node.name == "bascule.foreach":
                orders[node] = self._order(node)
            elif node.name == "bascule.reduce":
                reductions.append(node)
            for inner in node.blocks:
                self._inside(inner, orders)
        for _, alike in groupby(sorted(reductions, key=_ranges), key=_ranges):
            nodes = list(alike)
            found = [self._order(node) for node in nodes]
            kept = any(order == sorted(order) for order in found)
            orders.update((node, sorted(found[0]) if kept else found[0]) for node in nodes)

    def _order(self, loop: Node) -> list[int]:
        order, kept = self.memory.loop_order(loop), list(range(len(loop.indices)))
        several = [n for n in order if constant(loop.sizes[n]) != 1]
        if several == sorted(several) or loop in self.near:
            return kept
        if loop.name != "bascule.reduce":
            self.body.depend()
            if colliding(self.body, loop.blocks[0]):
                return kept
        return order


def _ranges(node: Node) -> str:
    return str(node.op.attributes["ranges"])


def _permute(loop: ir.Operation, order: list[int]) -> None:
    """Has a loop's index `order[n]` at place n."""
    block, sizes = loop.regions[0].blocks[0], list(loop.attributes["ranges"].value.results)
    indices = list(block.arguments)
    for n in order:
        indices[n].replace_all_uses_with(block.add_argument(indices[n].type, loop.location))
    for n in reversed(range(len(indices))):
        block.erase_argument(n)
    loop.attributes["ranges"] = ir.AffineMapAttr.get(size_map([sizes[n] for n in order]))
