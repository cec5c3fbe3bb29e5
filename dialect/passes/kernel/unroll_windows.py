"""The pass `unroll-windows`: points whose windows overlap are computed together, each element read once for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import decode
from ...analysis.bodies.body_tree import sizes_of
from ...analysis.products.windows import Window, window_of
from ...ir import builders
from ...ir.builders import symbols_of
from ...ir.functions import functions, kernel_op
from ...ir.regions import clone, end_of, ops_in
from ...ir.shapes import constant, expr, index_map, size_map
from ...mlir import affine, arith, ir
from ..base import EITHER, Pass, check_target
from ..tensor.simplify_indexing import simplify_indexing
from .settled_conditions import settle


@dataclass(frozen=True)
class UnrollWindows(Pass):
    """Takes kernel functions before schedules. On `target` cuda, of a kernel that sums over windows (a convolution, a pooling, their gradients)
    of which neighbours overlap, leaves one that computes some neighbours at a point of its domain, and sums some elements of the window in a
    step: an unroll and jam, after which equal reads are one. Where so many points do not divide the size, a foreach has the whole ones, another
    the rest.

    `analysis/products/windows.py` chooses the index, and how many points and terms: so that reads are few, and sums fit registers.
    """

    name: ClassVar[str] = "unroll-windows"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            simplifier = Simplifier()
            for function in functions(module):
                kernel = kernel_op(function)
                found = None if kernel is None else _window(kernel, Indexing(symbols_of(function), simplifier))
                if kernel is not None and found is not None:
                    _unroll(kernel, found)
                    simplify_indexing(function, simplifier)
                    _settle(kernel, Indexing(symbols_of(function), simplifier))


def _window(kernel: ir.Operation, indexing: Indexing) -> Window | None:
    body = decode(kernel, indexing=indexing)
    if any(node.name in ("bascule.foreach", "bascule.compute", "bascule.scan") for node in body.loops):
        return None
    return window_of(body)


def _settle(kernel: ir.Operation, indexing: Indexing) -> None:
    """Most of several neighbours are never in the border, whatever point it is."""
    for op in ops_in(kernel):
        if "ranges" in op.attributes:
            indexing.enter(op)
    settle(kernel, indexing)


def _unroll(kernel: ir.Operation, window: Window) -> None:
    block, sizes = kernel.regions[0].blocks[0], sizes_of(kernel)
    size = constant(sizes[window.outer])
    assert size is not None, "a window along a size that is not known"
    whole, rest = divmod(size, window.points)
    pieces = [(0, whole, window.points), *([(size - rest, 1, rest)] if rest else [])]
    body = [view.operation for view in block.operations]
    with ir.InsertionPoint(body[-1]), kernel.location:
        for first, count, points in pieces:
            ranges = [expr(count) if n == window.outer else size for n, size in enumerate(sizes)]
            write = partial(_points, block, body[:-1], window, first, points)
            if rest:
                builders.foreach(ranges, write)
            else:
                write(list(block.arguments))
                kernel.attributes["ranges"] = ir.AffineMapAttr.get(size_map(ranges))
    for op in reversed(body[:-1]):
        op.erase()
    if rest:
        for number in reversed(range(len(block.arguments))):
            block.erase_argument(number)
        kernel.attributes["ranges"] = ir.AffineMapAttr.get(size_map([]))


def _points(
    block: ir.Block, body: Sequence[ir.Operation], window: Window, first: int, points: int, at: list[ir.Value]
) -> None:
    """The kernel's `body` at so many points, from the one numbered `first` + `points` * `at` on."""
    for number in range(points):
        known = dict(zip(block.arguments, at))
        place = ir.AffineExpr.get_dim(0) * points + (first + number)
        known[block.arguments[window.outer]] = affine.apply(index_map(1, [place]), [at[window.outer]])
        for op in body:
            if op.name == "bascule.reduce":
                _sum(op, window, known)
            else:
                clone(op, known)


def _sum(op: ir.Operation, window: Window, known: dict[ir.Value, ir.Value]) -> None:
    """A clone of the sum `op` that adds up `window.terms` in a step; what is left over is one more sum."""
    length = constant(sizes_of(op)[window.inner])
    assert length is not None, "a window of a length that is not known"
    steps, rest = divmod(length, window.terms)
    with op.location:
        total = _part(op, window, known, 0, steps, window.terms)
        known[op.results[0]] = _added(total, _part(op, window, known, length - rest, 1, rest)) if rest else total


def _part(
    op: ir.Operation, window: Window, known: dict[ir.Value, ir.Value], first: int, steps: int, terms: int
) -> ir.Value:
    """The sum `op` from `first` on along the window: so many steps of so many terms."""
    block, sizes = op.regions[0].blocks[0], sizes_of(op)
    together = [terms if n == window.inner else constant(size) if window.whole else 1 for n, size in enumerate(sizes)]
    sizes = [expr(steps) if n == window.inner else expr(1) if window.whole else size for n, size in enumerate(sizes)]

    def term(numbers: Sequence[int], at: list[ir.Value]) -> ir.Value:
        inside = dict(known)
        for n, (index, count, number) in enumerate(zip(block.arguments, together, numbers)):
            place = ir.AffineExpr.get_dim(0) * count + (number + (first if n == window.inner else 0))
            inside[index] = (
                at[n]
                if count == 1 and place == ir.AffineExpr.get_dim(0)
                else affine.apply(index_map(1, [place]), [at[n]])
            )
        for view in list(block.operations)[:-1]:
            clone(view.operation, inside)
        (value,) = end_of(block).operands
        return inside.get(value, value)

    def body(at: list[ir.Value]) -> ir.Value:
        return reduce(_added, [term(numbers, at) for numbers in product(*map(range, together))])

    return builders.reduce("sum", sizes, op.results[0].type, body)[0]


def _added(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.addf(x, y) if isinstance(x.type, ir.FloatType) else arith.addi(x, y)
