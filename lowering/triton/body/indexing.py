"""Affine expressions of atoms and symbols, emitted as integer tiles."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from bascule.dialect.analysis.affine.linear_forms import Form, dims_of, linear
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir

from ..values.builder import Builder
from ..values.scalars import divide_floor
from ..values.tiles import Axis, Tile, elementwise, places
from .expressions import Expr, substitute

JOINED = 1 << 20  # atoms from here on stand for several groups of a loop


class Indexing:
    """`type` is that of indices; `at` the tile of each atom, `positive` the atoms that are never negative; `aligned`: all symbols are
    multiples of 16."""

    def __init__(self, b: Builder, type_: ir.Type, symbols: Sequence[Tile], aligned: bool = False):
        self.b, self.type, self.symbols, self.aligned = b, type_, symbols, aligned
        self.at: dict[
            int, Callable[[], Tile]
        ] = {}  # asked for where it is used: an atom that no address names costs nothing
        self.positive: set[int] = set()
        self.starts: dict[ir.Value, Tile] = {}  # what `range` gave -> where it starts
        self.joined: dict[tuple[int, int], int] = {}  # (last atom, first group) of a run of groups -> its atom
        self.flat: dict[
            int, tuple[list[tuple[int, Expr]], Tile]
        ] = {}  # first atom of a loop of several groups -> (groups, position)
        self.given: dict[int, tuple[Callable[[], Tile], Hashable]] = {}  # atom -> its tile, and what that is made of

    def number(self, value: int) -> Tile:
        return Tile(self.b.constant(self.type, value))

    def op(self, name: str, x: Tile, y: Tile) -> Tile:
        return elementwise(self.b, lambda p, q: self.b.same(name, p, q), [x, y])

    def steps(self, axis: Axis) -> Tile:
        """0, 1, ... along `axis`."""
        b, lanes = self.b, places(self.b, axis)
        return lanes if self.type == b.i32 else Tile(b.convert("arith.extsi", lanes.value, self.type), lanes.axes)

    def range(self, axis: Axis, start: Tile) -> Tile:
        """start, start + 1, ... along `axis`; `start` is a multiple of the axis' extent."""
        steps = self.steps(axis)
        tile = steps if start == self.number(0) else self.op("arith.addi", start, steps)
        self.starts[tile.value] = start
        return tile

    def evaluate(self, e: Expr) -> Tile:
        e = e.maybe_downcast()
        if isinstance(e, ir.AffineConstantExpr):
            return self.number(e.value)
        if isinstance(e, ir.AffineDimExpr):
            return self.at[e.position]()
        if isinstance(e, ir.AffineSymbolExpr):
            return self.symbols[e.position]
        x, y = self.evaluate(e.lhs), self.evaluate(e.rhs)
        zero, one = self.number(0), self.number(1)
        if isinstance(e, ir.AffineAddExpr):
            return y if x == zero else x if y == zero else self.op("arith.addi", x, y)
        if isinstance(e, ir.AffineMulExpr):
            if zero in (x, y):
                return zero
            return y if x == one else x if y == one else self.op("arith.muli", x, y)
        quotient, rest = self._divided(x, y, self._never_negative(e.lhs))
        if isinstance(e, ir.AffineModExpr):
            return rest
        if isinstance(e, ir.AffineFloorDivExpr):
            return quotient
        up = elementwise(self.b, lambda r: self.b.compare("ne", r, self.b.constant(r.type, 0)), [rest])
        more = elementwise(self.b, lambda u: self.b.convert("arith.extui", u, self.type), [up])
        return self.op("arith.addi", quotient, more)

    def _divided(self, x: Tile, y: Tile, positive: bool) -> tuple[Tile, Tile]:
        """Quotient rounded down and remainder, by a positive divisor."""
        if positive:
            return self.op("arith.divui", x, y), self.op("arith.remui", x, y)
        quotient = elementwise(self.b, lambda p, q: divide_floor(self.b, p, q)[0], [x, y])
        return quotient, elementwise(self.b, lambda p, q: divide_floor(self.b, p, q)[1], [x, y])

    def _never_negative(self, e: Expr) -> bool:
        e = e.maybe_downcast()
        if isinstance(e, ir.AffineDimExpr):
            return e.position in self.positive
        if isinstance(e, ir.AffineBinaryExpr):
            return self._never_negative(e.lhs) and self._never_negative(e.rhs)
        return not isinstance(e, ir.AffineConstantExpr) or e.value >= 0

    def address(self, e: Expr, *, by_axes: bool = False) -> Tile:
        """An element offset, see `joining`. `by_axes`: what runs along the first axes is summed first, so that two of the same elements are one
        value, whichever atoms they are said by."""
        e = self.joining(e)
        if not by_axes:
            return self.evaluate(e)
        terms = sorted(map(self.evaluate, _terms(e)), key=lambda tile: [axis.order for axis in tile.axes])
        total, zero = terms[0], self.number(0)
        for term in terms[1:]:
            total = term if total == zero else total if term == zero else self.op("arith.addi", total, term)
        return total

    def joining(self, e: Expr) -> Expr:
        """`e` where several groups of a loop that it runs through as through one are their flat position: no quotients, and Triton sees that
        neighbours are adjacent."""
        if not self.flat:
            return e
        form = linear(e)
        replaced: dict[int, Expr] = {}
        for groups, position in self.flat.values():
            first = 0
            for last in range(len(groups)):
                joined = last + 1 < len(groups) and self._joins(groups[last], groups[last + 1], form)
                if joined:
                    continue
                if last > first:
                    self._join(groups, (first, last), position, replaced)
                first = last + 1
        if not replaced:
            return e
        highest = max(dims_of(e), default=-1)
        return substitute(e, [replaced.get(k, Expr.get_dim(k)) for k in range(highest + 1)])

    @staticmethod
    def _joins(outer: tuple[int, Expr], inner: tuple[int, Expr], form: Form[int]) -> bool:
        return {outer[0], inner[0]} <= form.steps.keys() and form.flat(outer[0], inner[0], inner[1])

    def _join(
        self, groups: list[tuple[int, Expr]], run: tuple[int, int], position: Tile, replaced: dict[int, Expr]
    ) -> None:
        """Makes a run of groups one: the last one's atom is replaced by an atom of the run's flat position, the others by 0."""
        first, last = run
        below, within = (
            self.product([([], size) for _, size in part]) for part in (groups[last + 1 :], groups[first : last + 1])
        )

        def flat() -> Tile:
            tile = position if last + 1 == len(groups) else self.op("arith.divui", position, self.evaluate(below))
            return tile if first == 0 else self.op("arith.remui", tile, self.evaluate(within))

        atom = self.joined.setdefault((groups[last][0], first), JOINED + len(self.joined))
        self.at[atom] = flat
        self.positive.add(atom)
        for number, _ in groups[first:last]:
            replaced[number] = expr(0)
        replaced[groups[last][0]] = Expr.get_dim(atom)

    def place(self, form: Form[int]) -> Hashable:
        """Equal for two addresses of which one tile is made: they run through the same in the same steps, though the atoms are two loops'. None
        where that is not known."""
        found: list[Hashable] = []
        for atom in sorted(form.steps):
            made, of = self.given.get(atom, (None, None))
            if made is None or self.at[atom] is not made:
                return None
            found.append((of, form.steps[atom]))
        return None if form.terms else (form.start, *found)

    def put(self, atom: int, tile: Tile, *, positive: bool) -> None:
        self.at[atom] = lambda: tile
        self.given[atom] = self.at[atom], tile
        self.flat.pop(atom, None)  # of a loop that the atom belonged to
        if positive:
            self.positive.add(atom)

    def bind(self, groups: Sequence[tuple[list[int], Expr]], flat: Tile) -> None:
        """The atoms of a loop's groups, from its flat position."""
        for number, (group, _) in enumerate(groups):
            for atom in group:
                self.put(atom, self.number(0), positive=True)
            if group:
                self.at[group[-1]] = partial(self.coordinate, groups, number, flat)
                self.given[group[-1]] = self.at[group[-1]], (flat, number, *(size for _, size in groups))
        named = [(group[-1], size) for group, size in groups if group]
        if len(named) > 1:
            self.flat[named[0][0]] = named, flat

    def coordinate(self, groups: Sequence[tuple[list[int], Expr]], number: int, flat: Tile) -> Tile:
        """Index number `number` of the flat position over `groups`."""
        if constant(groups[number][1]) == 1:
            return self.number(0)
        for outer in range(len(groups) - 1, number, -1):
            if constant(groups[outer][1]) != 1:
                flat = self._part(flat, groups[outer][1], rest=False)
        if constant(self.product(groups[:number])) == 1:
            return flat
        return self._part(flat, groups[number][1], rest=True)

    def _part(self, flat: Tile, size: Expr, *, rest: bool) -> Tile:
        """The quotient or the remainder of a flat position by the size of a group: of a tile that does not reach beyond one, one number, or
        where it starts there and on."""
        name, divisor = "arith.remui" if rest else "arith.divui", self.evaluate(size)
        start, known = self.starts.get(flat.value), constant(size)
        if start is None or known is None or known % flat.axes[-1].extent:
            return self.op(name, flat, divisor)
        quotient = self.op("arith.divui", start, divisor)
        if not rest:
            return quotient
        # Triton takes the remainder of a scalar for a multiple of 1, a difference of multiples for what it is.
        within = self.op("arith.subi", start, self.op("arith.muli", quotient, divisor))
        return self.range(flat.axes[-1], within)

    @staticmethod
    def product(groups: Sequence[tuple[list[int], Expr]]) -> Expr:
        total = expr(1)
        for _, size in groups:
            total = expr(total * size)
        return total


def _terms(e: Expr) -> list[Expr]:
    """Expressions that `e` is the sum of."""
    e = e.maybe_downcast()
    return [*_terms(e.lhs), *_terms(e.rhs)] if isinstance(e, ir.AffineAddExpr) else [e]
