"""The pass `split-pieces`: a kernel that chooses between many pieces of its fastest index is a loop a piece."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

from ...analysis.bodies.body_tree import LOOPS, sizes_of
from ...ir import builders
from ...ir.functions import functions, kernel_op
from ...ir.regions import clone, ops_in
from ...ir.shapes import constant, expr, index_map, size_map
from ...mlir import affine, arith, ir
from ..base import EITHER, Pass, check_target

_SIGNED = arith.CmpIPredicate
# A comparison `index ? bound` -> where it changes, from the bound, and whether it holds below.
_COMPARISONS = {_SIGNED.slt: (0, True), _SIGNED.sle: (1, True), _SIGNED.sge: (0, False), _SIGNED.sgt: (1, False)}


@dataclass(frozen=True)
class SplitPieces(Pass):
    """Takes kernel functions before schedules; leaves kernels without ranges, a foreach a piece, in place of those whose domain's last index
    says by comparisons with constants, `least` of them or more, what is computed: a `cat` of columns, a `stack` of numbers. A vector that
    has lanes in several pieces would compute all of them under masks, so that n short pieces took n steps each.

    Left alone are fewer pieces than `few` of `long` elements or more, where most vectors are within one; pieces of an outer index, as a row of
    lanes is in one of them; and kernels of `most` operations or more for all pieces, which each repeats. Only for a CPU.
    """

    name: ClassVar[str] = "split-pieces"
    takes: ClassVar[str] = EITHER
    target: str = "cpu"
    least: int = 4
    most: int = 1 << 14
    long: int = 128
    few: int = 16

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target != "cpu":
            return
        with module.context:
            for function in functions(module):
                kernel = kernel_op(function)
                if kernel is not None:
                    _split(kernel, self)


def _split(kernel: ir.Operation, options: SplitPieces) -> None:
    block, sizes = kernel.regions[0].blocks[0], sizes_of(kernel)
    number = next((n for n in reversed(range(len(sizes))) if constant(sizes[n]) != 1), None)
    end = None if number is None else constant(sizes[number])
    if number is None or end is None or any(op.name in LOOPS for op in ops_in(kernel)):
        return
    index = block.arguments[number]
    bounds = sorted({bound for bound in _bounds(index) if 0 < bound < end})
    shared = [
        view.operation for view in block.operations if view.operation.name not in ("arith.constant", "arith.cmpi")
    ]
    stores = [op for op in shared if op.name == "bascule.store"]
    inside = ops_in(kernel)
    nested = sum(op.name == "bascule.store" for op in inside) - len(stores)
    pieces = len(bounds) + 1
    if pieces < options.few and end >= options.long * pieces:
        return
    if pieces < options.least or pieces * len(shared) >= options.most or nested:
        return
    body = set(inside)
    edges = [0, *bounds, end]
    with ir.InsertionPoint(stores[0]), kernel.location:
        for first, last in pairwise(edges):
            ranges = [expr(last - first) if n == number else size for n, size in enumerate(sizes)]
            builders.foreach(ranges, partial(_write, block, body, stores, number, first))
    _erase_but_loops(block)
    kernel.attributes["ranges"] = ir.AffineMapAttr.get(size_map([]))


def _erase_but_loops(block: ir.Block) -> None:
    """Erases what the pieces have copies of, and the indices."""
    ops = [view.operation for view in block.operations]
    for op in reversed(ops[:-1]):
        if op.name != "bascule.foreach":
            op.erase()
    for number in reversed(range(len(block.arguments))):
        block.erase_argument(number)


def _bounds(index: ir.Value) -> Iterator[int]:
    """Where comparisons of `index` with constants change."""
    for use in index.uses:
        found = _comparison(use.owner.operation, index)
        if found is not None:
            yield found[0]


def _comparison(op: ir.Operation, index: ir.Value) -> tuple[int, bool] | None:
    """The value of `index` from which on a comparison with a constant is another, and what it is below."""
    if op.name != "arith.cmpi" or op.operands[0] != index:
        return None
    other = op.operands[1].owner
    predicate = _COMPARISONS.get(_SIGNED(op.attributes["predicate"].value))
    if isinstance(other, ir.Block) or other.name != "arith.constant" or predicate is None:
        return None
    return other.attributes["value"].value + predicate[0], predicate[1]


def _write(
    block: ir.Block, body: set[ir.Operation], stores: list[ir.Operation], number: int, first: int, at: list[ir.Value]
) -> None:
    """The stores of a kernel in the piece that starts at `first`, at a point of its loop."""
    _Piece(block, body, number, first, at).write(stores)


class _Piece:
    """The ops `body` of a kernel, whose indices `block` has, in the piece of index `number` from `first` on: what is computed is copied."""

    def __init__(self, block: ir.Block, body: set[ir.Operation], number: int, first: int, at: list[ir.Value]):
        self.body, self.index, self.first = body, block.arguments[number], first
        self.known: dict[ir.Value, ir.Value] = dict(zip(block.arguments, at))
        # Of the first piece too: pieces of one length are then one loop but for a number and a buffer.
        self.known[self.index] = affine.apply(index_map(1, [ir.AffineExpr.get_dim(0) + self.first]), [at[number]])

    def write(self, stores: list[ir.Operation]) -> None:
        for store in stores:
            self._copy(store)

    def _value(self, value: ir.Value) -> ir.Value:
        """The value that stands in the piece for one of the kernel's."""
        op = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if value not in self.known and op is not None and op in self.body:
            taken = self._taken(op) if op.name == "scf.if" else None
            if taken is None:
                self._copy(op)
            else:
                results = op.regions[taken].blocks[0].operations
                yielded = results[len(results) - 1].operation
                for result, operand in zip(op.results, yielded.operands):
                    if result == value:
                        self.known[value] = self._value(operand)
        return self.known.get(value, value)

    def _copy(self, op: ir.Operation) -> None:
        outside = [operand for inner in (ops_in(op) if len(op.regions) else (op,)) for operand in inner.operands]
        made = {result for inner in ops_in(op) for result in inner.results} if len(op.regions) else set()
        for operand in outside:
            if operand not in made:
                self._value(operand)
        clone(op, self.known)

    def _taken(self, op: ir.Operation) -> int | None:
        """The branch of an `scf.if` that all of the piece takes, if its condition is one of those."""
        owner = op.operands[0].owner
        found = None if isinstance(owner, ir.Block) else _comparison(owner.operation, self.index)
        if found is None:
            return None
        bound, below = found
        return 0 if (self.first < bound) == below else 1
