"""Sums of rows by segments: a scatter that adds rows, as a sort of the rows' numbers and a sum over each number's own.

With `order` the points sorted by their rows, stably, those of row v are `order[start[v]] ... order[start[v + 1] - 1]`, and their sum is a loop
(`scf.for`) whose bounds come from data. A row may have all the points: so that no loop is long, runs of `CHUNK` neighbours in `order` that
go to one row are summed before, where there are any, and so are runs of `CHUNK` of those sums. A row then adds what is before its first whole
run, after its last, and the sums of those between. All of this is in a fixed order.
"""

from collections.abc import Callable, Sequence

from ..analysis.forms import form_of
from ..analysis.row_scatters import RowScatter
from ..ir import OperandAttr, builders
from ..ir.functions import Externs
from ..ir.shapes import constant, expr, index_map, shape_of, tensor_type
from ..mlir import arith, ir, scf
from .scatter_bodies import copied, start

CHUNK = 32  # sums in a row
SORT = "aten.sort.stable"
REASON = "the numbers of the rows that rows are added to, sorted"
MOST_STEPS = 40  # of a bisection: there are fewer points than 2**40

Element = Callable[[ir.Value, Sequence[ir.Value]], ir.Value]  # (position, as an integer; inner indices) -> a scalar


# Orders of points that are known in a graph: what the rows are computed by, and how many there are -> (sorted, order, starts).
Orders = dict[tuple, tuple[ir.Value, ir.Value, ir.Value]]


class SegmentSums:
    """Builds the sum that a scatter is, before it. `symbols` are those of the graph function; `orders` are of scatters before it."""

    def __init__(self, scatter: RowScatter, externs: Externs, symbols: Sequence[ir.Value], orders: Orders):
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
        few = known[1] is not None and known[1] < (1 << 15) - 1
        # Of rows that are sorted: fewer bits, fewer passes.
        self.key = ir.IntegerType.get_signless(16) if few else self.integer
        self.type = scatter.value.type

    def build(self) -> ir.Value:
        """The value of the scatter's result."""
        op = self.scatter.op
        with ir.InsertionPoint(op), op.location:
            self.sorted, self.order, starts = self._order()
            self.values = self._values() if self.scatter.reduces else None
            levels = self._levels()

            def total(at: list[ir.Value]) -> ir.Value:
                first = self._read(starts, at[0])
                last = self._read(
                    starts, builders.apply(index_map(1, [expr(ir.AffineExpr.get_dim(0) + 1)]), at[:1], [])[0]
                )
                return self._total(levels, first, last, at[1:], start(self.scatter.init, at))

            return builders.compute(op.results[0].type, self.sizes, total)

    # Integers

    def _number(self, value: int) -> ir.Value:
        return arith.constant(self.integer, ir.IntegerAttr.get(self.integer, value))

    def _size(self, size: ir.AffineExpr) -> ir.Value:
        """A size as an integer."""
        known = constant(size)
        if known is not None:
            return self._number(known)
        return arith.index_cast(self.integer, builders.apply(index_map(0, [size]), [], self.symbols)[0])

    def _index(self, value: ir.Value) -> ir.Value:
        return arith.index_cast(ir.IndexType.get(), value)

    def _read(self, tensor: ir.Value, index: ir.Value) -> ir.Value:
        return builders.read(tensor, [index])

    # The order of the points

    def _order(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The points' rows in ascending order, the points in that order, and where each row's begin: see `_starts`."""
        points = [self.count]
        type_ = tensor_type(points, self.key)
        rows = builders.compute(type_, points, lambda at: arith.index_cast(self.key, self._row(at[0])))
        compute = rows.owner.operation
        key = (form_of(compute, ())[0], str(self.sizes[0]))
        if key in self.orders:
            compute.erase()
        else:
            found, order = self._sort(rows, type_)
            self.orders[key] = found, order, self._starts(found)
        return self.orders[key]

    def _sort(self, rows: ir.Value, type_: ir.Type) -> list[ir.Value]:
        i64, points = ir.IntegerType.get_signless(64), [self.count]
        shapes = None if constant(self.count) is not None else [index_map(0, points)] * 2
        flags = [ir.BoolAttr.get(True), ir.IntegerAttr.get(i64, 0), ir.BoolAttr.get(False)]
        arguments = [OperandAttr.get(ir.IntegerAttr.get(i64, 0)), *flags]
        results = [type_, tensor_type(points, i64)]
        return self.externs.call(SORT, arguments, [rows], results, shapes=shapes, reason=REASON)

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

    def _sorted_row(self, found: ir.Value, position: ir.Value) -> ir.Value:
        row = self._read(found, position)
        return row if self.key == self.integer else arith.extsi(self.integer, row)

    def _starts(self, rows: ir.Value) -> ir.Value:
        """For each row, and one more, how many of the sorted `rows` are before it: by bisection."""
        sizes = [expr(self.sizes[0] + 1)]
        known = constant(self.count)

        def body(at: list[ir.Value]) -> ir.Value:
            row = arith.index_cast(self.integer, at[0])
            count, zero, one = self._size(self.count), self._number(0), self._number(1)
            steps = self._number(MOST_STEPS) if known is None else self._number(known.bit_length())
            if known is None:
                steps = arith.minsi(steps, count)  # of no points none is read
            last = arith.subi(count, one)
            loop = scf.ForOp(zero, steps, one, [zero, count])
            with ir.InsertionPoint(loop.body):
                low, high = loop.inner_iter_args
                middle = arith.divsi(arith.addi(low, high), self._number(2))
                found = self._sorted_row(rows, self._index(arith.minsi(middle, last)))
                open_ = arith.cmpi(arith.CmpIPredicate.slt, low, high)
                below = arith.cmpi(arith.CmpIPredicate.slt, found, row)
                up = arith.andi(open_, below)
                scf.YieldOp(
                    [
                        arith.select(up, arith.addi(middle, one), low),
                        arith.select(below, high, arith.minsi(middle, high)),
                    ]
                )
            return loop.results[0]

        return builders.compute(tensor_type(sizes, self.integer), sizes, body)

    # Sums

    def _levels(self) -> list[Element]:
        """What is summed: the points in order, runs of `CHUNK` of them, runs of runs."""
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
            first, last = (self._sorted_row(self.sorted, end) for end in ends)
            one_row = arith.cmpi(arith.CmpIPredicate.eq, first, last)
            if self.scatter.dropped is not None:
                one_row = arith.andi(one_row, arith.cmpi(arith.CmpIPredicate.slt, first, self._size(self.sizes[0])))
            begin = arith.muli(arith.index_cast(self.integer, at[0]), self._number(CHUNK))
            length = arith.select(one_row, self._number(CHUNK), self._number(0))
            return self._sum(begin, arith.addi(begin, length), self._zero(), lambda position: element(position, at[1:]))

        sums = builders.compute(tensor_type(sizes, self.type), sizes, body)
        return lambda position, inner: builders.read(sums, [self._index(position), *inner])

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
        zero = (
            ir.FloatAttr.get(self.type, 0.0)
            if isinstance(self.type, ir.FloatType)
            else ir.IntegerAttr.get(self.type, 0)
        )
        return arith.constant(self.type, zero)

    def _element(self, position: ir.Value, inner: Sequence[ir.Value]) -> ir.Value:
        """What the point number `position` in order adds."""
        scatter = self.scatter
        point = self._read(self.order, self._index(position))
        if self.integer.width == 32:
            point = arith.trunci(self.integer, point)
        at = list[ir.Value]()
        for number in reversed(range(1, len(self.extents))):
            size = self._size(self.extents[number])
            at.insert(0, self._index(arith.remui(point, size)))
            point = arith.divui(point, size)
        if self.extents:
            at.insert(0, self._index(point))
        inside = dict(zip((scatter.block.arguments[d] for d in scatter.points), at))
        inside |= {scatter.block.arguments[d]: index for d, index in zip(scatter.inner, inner) if d is not None}
        if self.values is not None:
            return builders.read(self.values, [inside[argument] for argument in list(scatter.block.arguments)[:-1]])
        return self._copy([scatter.value], inside)[0]

    def _values(self) -> ir.Value:
        """What the points add, in memory."""
        scatter, ranges = self.scatter, list(self.scatter.op.attributes["ranges"].value.results)

        def body(at: list[ir.Value]) -> ir.Value:
            return self._copy([scatter.value], dict(zip(scatter.block.arguments, at)))[0]

        return builders.compute(tensor_type(ranges, self.type), ranges, body)

    def _copy(self, values: Sequence[ir.Value], inside: dict[ir.Value, ir.Value]) -> list[ir.Value]:
        return copied(values, self.scatter.block, inside)
