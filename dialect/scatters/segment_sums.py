"""Sums of rows by segments: a scatter that adds rows, as an order of the points by their rows and a sum over each row's own.

In that order (`row_sort.py`) the points of row v are those from `start[v]` to before `start[v + 1]`, and their sum is a loop
(`scf.for`) whose bounds come from data. A row may have all the points: so that no loop is long, runs of `CHUNK` neighbours in order that
go to one row are summed before, where there are any, and so are runs of `CHUNK` of those sums. A row then adds what is before its first whole
run, after its last, and the sums of those between. All of this is in a fixed order.
"""

from collections.abc import Callable, Sequence

from ..analysis.bodies.structural_equality import form_of
from ..ir import builders
from ..ir.functions import Externs
from ..ir.shapes import constant, expr, index_map, shape_of, tensor_type
from ..mlir import arith, ir, scf
from .row_scatters import RowScatter
from .row_sort import Points, RowOrder, as_index
from .scatter_bodies import copied, start

CHUNK = 32  # sums in a row

Element = Callable[[ir.Value, Sequence[ir.Value]], ir.Value]  # (position, as an integer; inner indices) -> a scalar
# Those that are known in a graph, by what the rows are computed by, and how many there are.
Orders = dict[tuple, RowOrder]


class SegmentSums:
    """Builds the sum that a scatter is. `symbols` are those of the graph function; `orders` are of scatters before it; `merged` and
    `tile` are those of `Points`."""

    def __init__(
        self,
        scatter: RowScatter,
        externs: Externs,
        symbols: Sequence[ir.Value],
        orders: Orders,
        merged: int,
        tile: int,
    ):
        self.scatter, self.externs, self.symbols, self.orders = scatter, externs, list(symbols), orders
        self.sizes = shape_of(scatter.init)
        ranges = list(scatter.op.attributes["ranges"].value.results)
        self.extents = [ranges[d] for d in scatter.points]
        self.count = expr(1)
        for extent in self.extents:
            self.count = expr(self.count * extent)
        known = [constant(size) for size in (self.count, self.sizes[0])]
        small = all(size is not None and size < 1 << 30 for size in known)
        self.integer = ir.IntegerType.get_signless(32 if small else 64)  # of positions, rows and the sum of two
        self.points = Points(self.count, self.sizes[0], self.integer, self.symbols, merged, tile)
        self.type = scatter.value.type

    def build(self) -> ir.Value:
        """The value of the scatter's result, at the insertion point."""
        self.order = self._ordered()
        self.values = self._values() if self.scatter.reduces else None
        levels = self._levels()

        def total(at: list[ir.Value]) -> ir.Value:
            after = builders.apply(index_map(1, [expr(ir.AffineExpr.get_dim(0) + 1)]), at[:1], [])[0]
            first, last = (self._read(self.order.starts, row) for row in (at[0], after))
            return self._total(levels, first, last, at[1:], start(self.scatter.init, at))

        return builders.compute(self.scatter.op.results[0].type, self.sizes, total)

    # Integers

    def _number(self, value: int) -> ir.Value:
        return arith.constant(self.integer, value)

    def _size(self, size: ir.AffineExpr) -> ir.Value:
        """A size as an integer."""
        known = constant(size)
        if known is not None:
            return self._number(known)
        return arith.index_cast(self.integer, builders.apply(index_map(0, [size]), [], self.symbols)[0])

    def _read(self, tensor: ir.Value, index: ir.Value) -> ir.Value:
        return builders.read(tensor, [index])

    # The order of the points

    def _ordered(self) -> RowOrder:
        keys = self.points.keys(self._row)
        compute = keys.owner.operation
        key = (form_of(compute, ())[0], str(self.sizes[0]))
        if key in self.orders:
            compute.erase()
        else:
            self.orders[key] = self.points.ordered(keys, self.externs)
        return self.orders[key]

    def _row(self, position: ir.Value) -> ir.Value:
        """The row of a point; one more than there are for a point that adds nothing."""
        scatter = self.scatter
        dim, inner, indices = ir.AffineExpr.get_dim(0), expr(1), list[ir.AffineExpr]()
        for number in reversed(range(len(self.extents))):
            quotient = expr(ir.AffineExpr.get_floor_div(dim, inner))
            indices.insert(0, quotient if number == 0 else expr(ir.AffineExpr.get_mod(quotient, self.extents[number])))
            inner = expr(inner * self.extents[number])
        at = builders.apply(index_map(1, indices), [position], self.symbols)
        inside = dict(zip((scatter.block.arguments[d] for d in scatter.points), at))
        row, *dropped = self._copy([scatter.row, *(scatter.dropped or ())[:1]], inside)
        if scatter.dropped is None:
            return row
        beyond = builders.apply(index_map(0, [self.sizes[0]]), [], self.symbols)[0]
        return arith.select(dropped[0], *((beyond, row) if scatter.dropped[1] else (row, beyond)))

    # Sums

    def _levels(self) -> list[Element]:
        """The levels of the sum: the points in order, runs of `CHUNK` of them, runs of runs."""
        levels: list[Element] = [self._element]
        count, step = self.count, 1
        for _ in range(2):
            known = constant(count)
            if known is not None and known < 2 * CHUNK:
                break
            count, step = expr(ir.AffineExpr.get_floor_div(count, CHUNK)), step * CHUNK
            levels.append(self._runs(levels[-1], count, step))
        return levels

    def _runs(self, element: Element, count: ir.AffineExpr, step: int) -> Element:
        """The sums of runs of `CHUNK` elements, each of which stands for `step / CHUNK` points; of a run that goes to several rows, zero."""
        sizes = [count, *self.sizes[1:]]

        def body(at: list[ir.Value]) -> ir.Value:
            dim = ir.AffineExpr.get_dim(0)
            ends = builders.apply(index_map(1, [expr(dim * step), expr(dim * step + (step - 1))]), at[:1], [])
            first, last = (self.order.row(arith.index_cast(self.integer, end)) for end in ends)
            one_row = arith.cmpi(arith.CmpIPredicate.eq, first, last)
            if self.scatter.dropped is not None:
                one_row = arith.andi(one_row, arith.cmpi(arith.CmpIPredicate.slt, first, self._size(self.sizes[0])))
            begin = arith.muli(arith.index_cast(self.integer, at[0]), self._number(CHUNK))
            length = arith.select(one_row, self._number(CHUNK), self._number(0))
            return self._sum(begin, arith.addi(begin, length), self._zero(), lambda position: element(position, at[1:]))

        sums = builders.compute(tensor_type(sizes, self.type), sizes, body)
        return lambda position, inner: builders.read(sums, [as_index(position), *inner])

    def _total(
        self, levels: Sequence[Element], first: ir.Value, last: ir.Value, inner: Sequence[ir.Value], start: ir.Value
    ) -> ir.Value:
        """`start` and the elements of the first level from `first` to before `last`, of whole runs their sums."""
        element, *rest = levels
        if not rest:
            return self._sum(first, last, start, lambda position: element(position, inner))
        chunk, zero = self._number(CHUNK), self._number(0)
        begin = arith.divsi(arith.addi(first, self._number(CHUNK - 1)), chunk)
        runs = arith.maxsi(arith.subi(arith.divsi(last, chunk), begin), zero)
        skipped, gap = arith.muli(runs, chunk), arith.muli(begin, chunk)

        def single(position: ir.Value) -> ir.Value:
            """Positions in the runs are passed over."""
            after = arith.cmpi(arith.CmpIPredicate.sge, position, gap)
            return element(arith.select(after, arith.addi(position, skipped), position), inner)

        singles = self._sum(first, arith.subi(last, skipped), start, single)
        return self._total(rest, begin, arith.addi(begin, runs), inner, singles)

    def _sum(
        self, first: ir.Value, last: ir.Value, start: ir.Value, element: Callable[[ir.Value], ir.Value]
    ) -> ir.Value:
        loop = scf.ForOp(first, last, self._number(1), [start])
        with ir.InsertionPoint(loop.body):
            (before,) = loop.inner_iter_args
            value = element(loop.induction_variable)
            add = arith.addf if isinstance(self.type, ir.FloatType) else arith.addi
            scf.YieldOp([add(before, value)])
        return loop.results[0]

    def _zero(self) -> ir.Value:
        return arith.constant(self.type, 0.0 if isinstance(self.type, ir.FloatType) else 0)

    def _element(self, position: ir.Value, inner: Sequence[ir.Value]) -> ir.Value:
        """The value that the point number `position` in order adds."""
        scatter = self.scatter
        point = self.order.point(position)
        at = list[ir.Value]()
        for number in reversed(range(1, len(self.extents))):
            size = self._size(self.extents[number])
            at.insert(0, as_index(arith.remui(point, size)))
            point = arith.divui(point, size)
        if self.extents:
            at.insert(0, as_index(point))
        inside = dict(zip((scatter.block.arguments[d] for d in scatter.points), at))
        inside |= {scatter.block.arguments[d]: index for d, index in zip(scatter.inner, inner) if d is not None}
        if self.values is not None:
            return builders.read(self.values, [inside[argument] for argument in list(scatter.block.arguments)[:-1]])
        return self._copy([scatter.value], inside)[0]

    def _values(self) -> ir.Value:
        """Materializes the values that the points add as a tensor."""
        scatter, ranges = self.scatter, list(self.scatter.op.attributes["ranges"].value.results)

        def body(at: list[ir.Value]) -> ir.Value:
            return self._copy([scatter.value], dict(zip(scatter.block.arguments, at)))[0]

        return builders.compute(tensor_type(ranges, self.type), ranges, body)

    def _copy(self, values: Sequence[ir.Value], inside: dict[ir.Value, ir.Value]) -> list[ir.Value]:
        return copied(values, self.scatter.block, inside)
