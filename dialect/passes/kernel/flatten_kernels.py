"""The pass `flatten-kernels`: a kernel that only runs one foreach at each point has the foreach's points in its domain."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.bodies.body_tree import LOOPS, sizes_of
from ...ir.functions import functions, kernel_op
from ...ir.loop_ops import ForeachOp
from ...ir.shapes import size_map
from ...mlir import ir
from ..base import EITHER, Pass, check_target


@dataclass(frozen=True)
class FlattenKernels(Pass):
    """Takes kernel functions; leaves kernels whose region is one `foreach`, and what it needs of the point, with the ranges of both.

    A GPU runs the points of a domain at once and those of a loop in turn: 64 channels with a foreach over 200704 places would occupy 64 threads.
    What was computed once a point is then computed at each place: reads of vectors, which caches hold. For a CPU nothing changes.
    """

    name: ClassVar[str] = "flatten-kernels"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None:
                    _flatten(kernel)


def _flatten(kernel: ir.Operation) -> None:
    block = kernel.regions[0].blocks[0]
    ops = [view.operation for view in block.operations]
    loops = [op for op in ops if op.name in LOOPS]
    apart = [op for op in ops if op not in loops and (len(op.regions) or op.name == "bascule.store")]
    if len(loops) != 1 or loops[0].name != ForeachOp.OPERATION_NAME or apart:
        return
    (loop,) = loops
    inner = loop.regions[0].blocks[0]
    sizes = [*sizes_of(kernel), *sizes_of(loop)]
    for argument in inner.arguments:
        argument.replace_all_uses_with(block.add_argument(argument.type, loop.location))
    for view in list(inner.operations):
        if view.operation.name != "bascule.yield":
            view.operation.move_before(loop)
    loop.erase()
    kernel.attributes["ranges"] = ir.AffineMapAttr.get(size_map(sizes))
