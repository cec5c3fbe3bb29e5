"""The order of points by the rows they go to, stable, and where each row's points begin in it.

Few points are ordered by two kernels: those of a tile by comparing each with each, then all, by counting for each point what is before it in
every tile, by bisection. More are sorted by `aten.sort.stable`, whose many launches take longer while there are few.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir import OperandAttr, builders
from ..ir.functions import Externs
from ..ir.memory_ops import WHOLE
from ..ir.shapes import constant, expr, index_map, tensor_type
from ..mlir import arith, ir, scf

SORT = "aten.sort.stable"
REASON = "the numbers of the rows that rows are added to, sorted"
MOST_STEPS = 40  # of a bisection: there are fewer points than 2**40
WAYS = 8  # parts of what is searched, told apart by reads that do not wait for one another
HALF = 32  # bits of a row, and of a point, where one number is both

At = Callable[[ir.Value], ir.Value]  # of a position, as an integer


@dataclass(frozen=True)
class RowOrder:
    """The points in order: the row of the one at a position, and its number; `starts`: for each row, and one more, how many are before it."""

    row: At
    point: At
    starts: ir.Value


@dataclass(frozen=True)
class Points:
    """`count` points that go to `rows` rows; to row `rows` itself goes what is added nowhere. `integer` is the type of positions, rows and
    points, wide enough for the sum of two; `symbols` are those of the graph function. Up to `merged` points are ordered by kernels, in tiles of
    `tile`, a power of two."""

    count: ir.AffineExpr
    rows: ir.AffineExpr
    integer: ir.IntegerType
    symbols: Sequence[ir.Value]
    merged: int
    tile: int

    def keys(self, row: At) -> ir.Value:
        """The sort keys of the points: `row(point)` as an integer, both of type `index`; of tiles, with the point's place in it below."""
        if self._few is None:
            # Fewer bits, fewer passes.
            few = (most := constant(self.rows)) is not None and most < (1 << 15) - 1
            key = ir.IntegerType.get_signless(16) if few else self.integer
            return builders.compute(
                tensor_type([self.count], key), [self.count], lambda at: arith.index_cast(key, row(at[0]))
            )
        known, most = self._few
        tile = min(self.tile, 1 << (known - 1).bit_length())
        key = ir.IntegerType.get_signless(32 if (most + 2) * tile < 1 << 31 else 64)
        dim = ir.AffineExpr.get_dim
        sizes = [expr(-(-known // tile)), expr(tile)]

        def body(at: list[ir.Value]) -> ir.Value:
            (point,) = builders.apply(index_map(2, [expr(dim(0) * tile + dim(1))]), at, [])
            if known % tile:  # what fills the last tile comes after all
                (last,), (beyond,) = (builders.apply(index_map(0, [expr(n)]), [], []) for n in (known - 1, most))
                found = arith.select(_less(last, point), beyond, row(arith.minsi(point, last)))
            else:
                found = row(point)
            number, place = (arith.index_cast(key, value) for value in (found, at[1]))
            return arith.addi(arith.muli(number, arith.constant(key, tile)), place)

        return builders.compute(tensor_type(sizes, key), sizes, body)

    @property
    def _few(self) -> tuple[int, int] | None:
        """How many points and rows there are, if the points are few enough to be ordered by kernels."""
        count, rows = constant(self.count), constant(self.rows)
        few = count is not None and 0 < count <= self.merged and self.integer.width == HALF
        return (count, rows) if few and count is not None and rows is not None else None

    def ordered(self, keys: ir.Value, externs: Externs) -> RowOrder:
        """The order by `keys`, as `self.keys` makes them."""
        if self._few is not None:
            return self._merged(self._tiles(keys))
        return self._sorted(keys, externs)

    # By a sort

    def _sorted(self, keys: ir.Value, externs: Externs) -> RowOrder:
        i64 = ir.IntegerType.get_signless(64)
        shapes = None if constant(self.count) is not None else [index_map(0, [self.count])] * 2
        flags = [ir.BoolAttr.get(True), ir.IntegerAttr.get(i64, 0), ir.BoolAttr.get(False)]
        arguments = [OperandAttr.get(ir.IntegerAttr.get(i64, 0)), *flags]
        results = [keys.type, tensor_type([self.count], i64)]
        rows, order = externs.call(SORT, arguments, [keys], results, shapes=shapes, reason=REASON)

        def row(position: ir.Value) -> ir.Value:
            found = builders.read(rows, [as_index(position)])
            return found if found.type == self.integer else arith.extsi(self.integer, found)

        def point(position: ir.Value) -> ir.Value:
            found = builders.read(order, [as_index(position)])
            return found if found.type == self.integer else arith.trunci(self.integer, found)

        return RowOrder(row, point, self._starts(row))

    # By kernels

    def _tiles(self, keys: ir.Value) -> ir.Value:
        """The keys, those of each tile in order: a key's place is the number of smaller ones."""
        tiles, tile = keys.type.shape
        i32 = ir.IntegerType.get_signless(32)
        sizes = [expr(tiles), expr(tile)]

        def body(at: list[ir.Value], dest: ir.Value) -> None:
            own = builders.read(keys, at)

            def smaller(others: list[ir.Value]) -> ir.Value:
                before = _less(builders.read(keys, [at[0], others[0]]), own)
                return arith.select(before, arith.constant(i32, 1), arith.constant(i32, 0))

            (place,) = builders.reduce("sum", [expr(tile)], i32, smaller)
            builders.store(own, dest, [at[0], as_index(place)])

        return _written(keys.type, sizes, sizes, body)

    def _merged(self, keys: ir.Value) -> RowOrder:
        """The order of all points, from keys that are in order in each tile: a point's place is the number of those before it in every tile."""
        tiles, tile = keys.type.shape
        key, i64, i32 = keys.type.element_type, ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
        sizes, total = [expr(tiles), expr(tile)], [expr(tiles * tile)]

        def body(at: list[ir.Value], dest: ir.Value) -> None:
            own = builders.read(keys, at)
            row, place = arith.divui(own, arith.constant(key, tile)), arith.remui(own, arith.constant(key, tile))
            first = arith.muli(row, arith.constant(key, tile))  # of its row
            after = arith.addi(first, arith.constant(key, tile))

            def before(others: list[ir.Value]) -> ir.Value:
                """Of an earlier tile, what goes to its row too; of a later one, only what goes to rows before."""
                least = arith.select(_less(others[0], at[0]), after, first)
                least = arith.select(arith.cmpi(arith.CmpIPredicate.eq, others[0], at[0]), own, least)
                return _count(
                    lambda found: _less(builders.read(keys, [others[0], as_index(found)]), least), tile, 2, i32
                )

            (found,) = builders.reduce("sum", [expr(tiles)], i32, before)
            number = arith.addi(arith.muli(arith.index_cast(i64, at[0]), arith.constant(i64, tile)), _cast(i64, place))
            both = arith.ori(arith.shli(_cast(i64, row), arith.constant(i64, HALF)), number)
            builders.store(both, dest, [as_index(found)])

        order = _written(tensor_type(total, i64), total, sizes, body)

        def row(position: ir.Value) -> ir.Value:
            both = builders.read(order, [as_index(position)])
            return arith.trunci(self.integer, arith.shrui(both, arith.constant(i64, HALF)))

        def point(position: ir.Value) -> ir.Value:
            return arith.trunci(self.integer, builders.read(order, [as_index(position)]))

        return RowOrder(row, point, self._starts_among(row, tiles * tile))

    # Where rows begin

    def _starts_among(self, row: At, total: int) -> ir.Value:
        """By search among `total` rows in order, those of no point at the end."""
        sizes, integer = [expr(self.rows + 1)], self.integer
        length = 1 << (total - 1).bit_length()

        def body(at: list[ir.Value]) -> ir.Value:
            own, last = arith.index_cast(integer, at[0]), arith.constant(integer, total - 1)

            def less(place: ir.Value) -> ir.Value:
                if length == total:
                    return _less(row(place), own)
                inside = arith.cmpi(arith.CmpIPredicate.sle, place, last)
                return arith.andi(inside, _less(row(arith.minsi(place, last)), own))

            return _count(less, length, WAYS, integer)

        return builders.compute(tensor_type(sizes, integer), sizes, body)

    def _starts(self, row: At) -> ir.Value:
        """By bisection of the rows in order."""
        sizes = [expr(self.rows + 1)]
        known, integer = constant(self.count), self.integer

        def body(at: list[ir.Value]) -> ir.Value:
            own = arith.index_cast(integer, at[0])
            zero, one = arith.constant(integer, 0), arith.constant(integer, 1)
            if known is None:
                count = arith.index_cast(integer, builders.apply(index_map(0, [self.count]), [], self.symbols)[0])
                steps = arith.minsi(arith.constant(integer, MOST_STEPS), count)  # of no points none is read
            else:
                count, steps = arith.constant(integer, known), arith.constant(integer, known.bit_length())
            last = arith.subi(count, one)
            loop = scf.ForOp(zero, steps, one, [zero, count])
            with ir.InsertionPoint(loop.body):
                low, high = loop.inner_iter_args
                middle = arith.divsi(arith.addi(low, high), arith.constant(integer, 2))
                found = row(arith.minsi(middle, last))
                below = _less(found, own)
                up = arith.andi(_less(low, high), below)
                scf.YieldOp(
                    [
                        arith.select(up, arith.addi(middle, one), low),
                        arith.select(below, high, arith.minsi(middle, high)),
                    ]
                )
            return loop.results[0]

        return builders.compute(tensor_type(sizes, integer), sizes, body)


def _count(less: At, length: int, ways: int, type_: ir.IntegerType) -> ir.Value:
    """How many of `length` elements in order, a power of two, are less than something, by `less(place)`: of that many, `ways` are left of by
    reads that do not wait for one another."""
    found, step = arith.constant(type_, 0), length
    while step > 1:
        parts = min(ways, step)
        step //= parts
        passed = [
            _step(less, arith.addi(found, arith.constant(type_, part * step - 1)), step) for part in range(1, parts)
        ]
        for more in passed:
            found = arith.addi(found, more)
    return arith.addi(found, _step(less, found, 1))


def _step(less: At, place: ir.Value, step: int) -> ir.Value:
    return arith.select(less(place), arith.constant(place.type, step), arith.constant(place.type, 0))


def _written(
    type_: ir.Type, sizes: Sequence[ir.AffineExpr], points: Sequence[ir.AffineExpr], body: Callable
) -> ir.Value:
    """A tensor to whose every element one of `points` stores."""
    init = builders.compute(type_, sizes, lambda _: arith.constant(type_.element_type, 0))
    result = builders.scatter(init, points, body)
    result.owner.attributes[WHOLE] = ir.UnitAttr.get()
    return result


def as_index(value: ir.Value) -> ir.Value:
    """A scalar integer (signed) as an index."""
    return arith.index_cast(ir.IndexType.get(), value)


def _cast(type_: ir.IntegerType, value: ir.Value) -> ir.Value:
    return value if value.type == type_ else arith.extui(type_, value)


def _less(left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.slt, left, right)
