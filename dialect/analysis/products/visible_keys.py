"""Which keys a mask lets a query see: where a score may be other than -inf, or a weight other than 0, as bounds of the key's index.

A mask is a comparison of affine expressions of indices, or several that are joined. Each gives a bound of the key that holds wherever the score
is not -inf; what is no such comparison bounds nothing. A score masked by a finite number counts as seen: where all of a row are masked so, its
weights are equal. A weight is 0 where its score is -inf, as exp is, and where it is chosen or multiplied to be.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TypeVar

from ...ir.attribute_names import TAIL
from ...ir.regions import ops_in
from ...ir.shapes import constant, expr
from ...mlir import ir
from ..affine.linear_forms import dims_of

T = TypeVar("T")
MOST = 8  # intervals of a union
READS = ("tensor.extract", "memref.load")
READ = 1 << 40  # what a number that is read counts as, either way
MOST_PLACES = 1 << 31  # places of a size that is not known, at most
OEQ = 1  # the number of that predicate of arith.cmpf


@dataclass(frozen=True)
class Interval:
    """The keys from the largest of `first` on, and before the least of `end`: expressions of the indices around."""

    first: tuple[ir.AffineExpr, ...] = ()
    end: tuple[ir.AffineExpr, ...] = ()


Visible = tuple[Interval, ...]  # a union
ALL: Visible = (Interval(),)

# Predicates of arith.cmpi by number, as signed; their opposites, and those with the operands exchanged.
SIGNED = ("eq", "ne", "lt", "le", "gt", "ge", "lt", "le", "gt", "ge")
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
EXCHANGED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def visible_keys(
    value: ir.Value,
    key: int,
    sizes: Mapping[int, ir.AffineExpr],
    index: Callable[[ir.Value], ir.AffineExpr | None],
    *,
    weight: bool = False,
) -> Visible | None:
    """Where `value`, a score, may be other than -inf (a `weight`, other than 0); None where nothing bounds that. `key` is the number of its
    index, `sizes` has those of all indices that may be named, known or not, `index` gives an index value as an expression of these, or None. An
    integer that is read may be one too, of a number that has no size: a length, as of the keys that a cache has of a sequence."""
    masks = Masks(key, sizes, index)
    found = masks.weight(value) if weight else masks.score(value)
    # What is before the first key of one interval alone, or after the last of one alone, is in another.
    begins, ends = (all(bounds) for bounds in ([i.first for i in found], [i.end for i in found]))
    outer = dict.fromkeys(Interval(i.first if begins else (), i.end if ends else ()) for i in found)
    return tuple(outer) if found and (begins or ends) else None


def extreme(
    e: ir.AffineExpr,
    least: bool,
    at: Callable[[int, bool], T],
    number: Callable[[int], T],
    apply: Callable[[str, T, T], T],
) -> T:
    """The least or the largest of `e`, as `at` has those of its dims; of a remainder, of all that it can be. `apply` does +, * and //."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        return at(e.position, least)
    if isinstance(e, ir.AffineConstantExpr):
        return number(e.value)
    by = constant(e.rhs)
    if isinstance(e, ir.AffineModExpr):
        assert by is not None
        return number(0 if least else by - 1)
    if isinstance(e, ir.AffineAddExpr):
        return apply("+", *(extreme(side, least, at, number, apply) for side in (e.lhs, e.rhs)))
    assert by is not None
    side = extreme(e.lhs, least == (by > 0), at, number, apply)
    return apply("*" if isinstance(e, ir.AffineMulExpr) else "//", side, number(by))


@dataclass(frozen=True)
class Masks:
    """Reads masks, see `visible_keys`."""

    key: int
    sizes: Mapping[int, ir.AffineExpr]
    index: Callable[[ir.Value], ir.AffineExpr | None]

    @cached_property
    def extents(self) -> dict[int, int]:
        """How many places each index has, at most."""
        known = {dim: constant(size) for dim, size in self.sizes.items()}
        return {dim: MOST_PLACES if size is None else size for dim, size in known.items()}

    def score(self, value: ir.Value) -> Visible:
        """Where a float is other than -inf, or more."""
        owner = _owner(value)
        if owner is None:
            return ALL
        match owner.name:
            case "arith.constant":
                return () if owner.attributes["value"].value == -inf else ALL
            case "arith.select":
                return self._chosen(owner, self.score)
            case "arith.addf":
                return _and(*map(self.score, owner.operands))
            case "arith.extf" | "arith.truncf":
                return self.score(owner.operands[0])
            case "arith.mulf" | "arith.divf" if _is_positive(owner.operands[1]):
                return self.score(owner.operands[0])
        return ALL

    def weight(self, value: ir.Value) -> Visible:
        """Where a float is other than 0, or more."""
        owner = _owner(value)
        if owner is None:
            return ALL
        match owner.name:
            case "arith.constant":
                return () if owner.attributes["value"].value == 0 else ALL
            case "arith.select":
                return self._chosen(owner, self.weight)
            case "arith.mulf":
                return _and(*map(self.weight, owner.operands))
            case "arith.divf" | "arith.extf" | "arith.truncf":
                return self.weight(owner.operands[0])
            case "arith.addf" | "arith.subf":
                return _or(*map(self.weight, owner.operands))
            case "math.exp" | "math.exp2":
                return self._power(owner.operands[0])
        return ALL

    def _power(self, value: ir.Value) -> Visible:
        """Where an exponent is other than -inf, or more: a score from which numbers of its row were subtracted."""
        if _named(value, "arith.mulf") and _is_positive(value.owner.operands[1]):
            return self._power(value.owner.operands[0])
        if not _named(value, "arith.subf"):
            return self.score(value)
        score, most = value.owner.operands
        return self._power(score) if _is_guarded(most) or self._leaves_some(score, most) else ALL

    def _leaves_some(self, score: ir.Value, most: ir.Value) -> bool:
        """Whether each row for which there is `most`, its largest score or the like, has a score that no mask hides: else both may be -inf, and
        exp(score - most) is NaN, not 0. What `score` depends on beside `most` are the places in a row."""
        rows, everything = self._dims(most), self._dims(score)
        if rows is None or everything is None:
            return False
        places = [dim for dim in everything - rows if self.extents.get(dim) != 1]
        if len(places) != 1 or places[0] not in self.extents:
            return len(places) == 0
        masks = Masks(places[0], self.sizes, self.index)
        hidden = masks.hidden(score)
        bounds = [
            bound for interval in hidden for bound in (*interval.end, *(expr(first - 1) for first in interval.first))
        ]
        dims = dict.fromkeys(dim for bound in bounds for dim in dims_of(bound))
        candidates = [expr(0), *map(ir.AffineExpr.get_dim, dims), *bounds]
        return any(masks._is_inside(place) and masks._is_outside(place, hidden) for place in candidates)

    def hidden(self, value: ir.Value) -> Visible:
        """Where a mask may make a float -inf, or more; what is read or multiplied is taken for finite."""
        owner = _owner(value)
        if owner is None:
            return ()
        match owner.name:
            case "arith.constant":
                return ALL if owner.attributes["value"].value == -inf else ()
            case "arith.select":
                return self._chosen(owner, self.hidden)
            case "bascule.reduce" | "tensor.extract" | "memref.load":
                return ()
        return _or(*map(self.hidden, owner.operands))

    def _is_inside(self, place: ir.AffineExpr) -> bool:
        """Whether there is always a key at `place`, where there are keys: of a size that is not known at the first, and at an index of so many
        places."""
        size = self.sizes[self.key]
        if constant(size) is not None:
            return self._is_before(expr(-1), place) and self._is_before(place, size)
        place = place.maybe_downcast()
        return constant(place) == 0 or (isinstance(place, ir.AffineDimExpr) and self.sizes.get(place.position) == size)

    def _is_outside(self, place: ir.AffineExpr, hidden: Visible) -> bool:
        """Whether `place` is always in none of the intervals `hidden`."""
        return all(
            any(self._is_before(place, first) for first in interval.first)
            or any(self._is_before(expr(end - 1), place) for end in interval.end)
            for interval in hidden
        )

    def _is_before(self, one: ir.AffineExpr, other: ir.AffineExpr) -> bool:
        return self._range(_collected(expr(other - one)))[0] > 0

    def _dims(self, value: ir.Value) -> set[int] | None:
        """The indices that `value` depends on, those of loops in it left out; None if one is not known."""
        if isinstance(value.type, ir.IndexType):
            found = self.index(value)
            return None if found is None else set(dims_of(found))
        owner = _owner(value)
        if owner is None or isinstance(value.type, ir.RankedTensorType | ir.MemRefType):
            return set()
        inner = ops_in(owner)
        parts = [self._dims(operand) for op in inner for operand in op.operands]
        own = [self._dims(x) for op in inner for region in op.regions for x in region.blocks[0].arguments]
        found_all = set().union(*(part for part in parts if part is not None))
        return None if None in parts else found_all.difference(*(part for part in own if part is not None))

    def _chosen(self, select: ir.Operation, visible: Callable[[ir.Value], Visible]) -> Visible:
        condition, yes, no = select.operands
        return _or(_and(self.holds(condition, True), visible(yes)), _and(self.holds(condition, False), visible(no)))

    def holds(self, condition: ir.Value, wanted: bool) -> Visible:
        """Where `condition` is `wanted`, or more."""
        owner = _owner(condition)
        if owner is None:
            return ALL
        match owner.name:
            case "arith.constant":
                return ALL if bool(owner.attributes["value"].value) == wanted else ()
            case "arith.cmpi":
                return self._compared(owner, wanted)
            case "arith.andi" | "arith.ori":
                both = (owner.name == "arith.andi") == wanted
                return (_and if both else _or)(*(self.holds(side, wanted) for side in owner.operands))
            case "arith.xori" if _is_true(owner.operands[1]):
                return self.holds(owner.operands[0], not wanted)
            case "arith.select":
                chosen, yes, no = owner.operands
                return _or(
                    _and(self.holds(chosen, True), self.holds(yes, wanted)),
                    _and(self.holds(chosen, False), self.holds(no, wanted)),
                )
        return ALL

    def _compared(self, op: ir.Operation, wanted: bool) -> Visible:
        number = op.attributes["predicate"].value
        predicate = SIGNED[number] if wanted else OPPOSITE[SIGNED[number]]
        x, y = op.operands
        if _named(y, "math.absi"):
            x, y, predicate = y, x, EXCHANGED[predicate]
        other = self._integer(y)
        # |e| is the larger of e and -e.
        size = _owner(x) if _named(x, "math.absi") else None
        e = self._integer(x if size is None else size.operands[0])
        if e is None or other is None:
            return ALL
        if number >= len(SIGNED) - 4 and min(self._range(e)[0], self._range(other)[0]) < 0:
            return ALL  # unsigned
        sides = [e] if size is None else [e, expr(e * -1)]
        below = [self._negative(side - other, 1 if predicate in ("lt", "ne") else 0) for side in sides]
        above = [self._negative(other - side, 1 if predicate in ("gt", "ne") else 0) for side in sides]
        match predicate:
            case "lt" | "le":
                return _and(*below)
            case "gt" | "ge":
                return _or(*above)
            case "eq":
                return _and(*below, _or(*above))
        return _or(_and(*below), *above)

    def _negative(self, e: ir.AffineExpr, by: int) -> Visible:
        """Where e <= -by, or more."""
        e = expr(e + by)
        least, most = self._range(e)
        if least > 0 or most <= 0:
            return ALL if most <= 0 else ()
        terms, rest = dict[ir.AffineExpr, int](), expr(0)
        for term, factor in _terms(e):
            if self.key in dims_of(term):
                terms[term] = terms.get(term, 0) + factor
            else:
                rest = expr(rest + term * factor)
        terms, rest = self._without_remainders(terms, rest)
        if len(terms) != 1:
            return ALL
        ((term, factor),) = terms.items()
        if not self._is_safe(term, factor, rest):
            return ALL
        if factor > 0:  # term <= -rest / factor
            return self._at_most(term, _quotient(expr(rest * -1), factor))
        return ALL if factor == 0 else self._at_least(term, expr(_quotient(expr(rest * -1), -factor) * -1))

    def _without_remainders(
        self, terms: dict[ir.AffineExpr, int], rest: ir.AffineExpr
    ) -> tuple[dict[ir.AffineExpr, int], ir.AffineExpr]:
        """Terms of the key and `rest`, which together are no larger: remainders as the least that they are. The key itself, beside a quotient of
        it, is a multiple of that and a remainder."""
        key, kept = ir.AffineExpr.get_dim(self.key), dict(terms)
        for term in terms:
            size = constant(term.rhs) if isinstance(term, ir.AffineModExpr | ir.AffineFloorDivExpr) else None
            if size and isinstance(term, ir.AffineModExpr):
                rest = expr(rest + min(0, kept.pop(term)) * (size - 1))
            elif size and key in kept and expr(term.lhs) == key:
                factor = kept.pop(key)
                kept[term] += factor * size
                rest = expr(rest + min(0, factor) * (size - 1))
        return kept, rest

    def _is_safe(self, term: ir.AffineExpr, factor: int, rest: ir.AffineExpr) -> bool:
        """Whether no number that was read is multiplied or divided, whatever it is."""

        def is_read(e: ir.AffineExpr) -> bool:
            return not dims_of(e) <= self.extents.keys()

        read = [(each, times) for each, times in _terms(rest) if is_read(each)]
        plain = all(abs(times) == 1 and isinstance(each, ir.AffineDimExpr) for each, times in read)
        if isinstance(term, ir.AffineFloorDivExpr) and isinstance(term.lhs.maybe_downcast(), ir.AffineDimExpr):
            return not read or (
                plain and abs(factor) >= (constant(term.rhs) or inf)
            )  # divided by more than it is multiplied by
        return not read or (plain and abs(factor) == 1 and isinstance(term, ir.AffineDimExpr))

    def _at_most(self, term: ir.AffineExpr, bound: ir.AffineExpr) -> Visible:
        if isinstance(term, ir.AffineDimExpr):
            return (Interval(end=(expr(bound + 1),)),)
        if isinstance(term, ir.AffineFloorDivExpr) and isinstance(term.lhs.maybe_downcast(), ir.AffineDimExpr):
            return (Interval(end=(expr((bound + 1) * term.rhs),)),)
        if isinstance(term, ir.AffineFloorDivExpr):
            return self._negative(term.lhs - (bound + 1) * term.rhs, 1)
        return ALL

    def _at_least(self, term: ir.AffineExpr, bound: ir.AffineExpr) -> Visible:
        if isinstance(term, ir.AffineDimExpr):
            return (Interval(first=(bound,)),)
        if isinstance(term, ir.AffineFloorDivExpr) and isinstance(term.lhs.maybe_downcast(), ir.AffineDimExpr):
            return (Interval(first=(expr(bound * term.rhs),)),)
        if isinstance(term, ir.AffineFloorDivExpr):
            return self._negative(bound * term.rhs - term.lhs, 0)
        return ALL

    def _integer(self, value: ir.Value) -> ir.AffineExpr | None:
        """An integer as an expression of indices, where its type has room for all that this can be."""
        owner = _owner(value)
        if owner is not None and TAIL in owner.attributes:
            return self._integer(owner.operands[0])
        if isinstance(value.type, ir.IndexType):
            found = self.index(value)
            return found if found is not None and self._is_known(found) else None
        if owner is None or not isinstance(value.type, ir.IntegerType):
            return None
        if owner.name == "arith.constant":
            return expr(owner.attributes["value"].value)
        if owner.name in READS:
            return self.index(value)
        found = self._computed(owner)
        if found is None:
            return None
        least, most = self._range(found)
        room = 1 << (value.type.width - 1)
        return found if -room <= least and most < room else None

    def _computed(self, owner: ir.Operation) -> ir.AffineExpr | None:
        sides = [self._integer(operand) for operand in owner.operands]
        match owner.name, *sides:
            case (("arith.index_cast" | "arith.extsi" | "arith.trunci"), ir.AffineExpr() as e):
                return e
            case "arith.extui", ir.AffineExpr() as e if self._range(e)[0] >= 0:
                return e
            case "arith.addi", ir.AffineExpr() as x, ir.AffineExpr() as y:
                return expr(x + y)
            case "arith.subi", ir.AffineExpr() as x, ir.AffineExpr() as y:
                return expr(x - y)
            case "arith.muli", ir.AffineExpr() as x, ir.AffineExpr() as y if (
                constant(x) is not None or constant(y) is not None
            ):
                return expr(x * y)
            case "arith.floordivsi", ir.AffineExpr() as x, ir.AffineExpr() as y if (constant(y) or 0) > 0:
                return _quotient(x, constant(y) or 1)
        return None

    def _is_known(self, e: ir.AffineExpr) -> bool:
        """Whether `e` is of indices with extents, and its factors and divisors are constants."""
        e = e.maybe_downcast()
        if isinstance(e, ir.AffineDimExpr):
            return e.position in self.extents
        if isinstance(e, ir.AffineAddExpr):
            return self._is_known(e.lhs) and self._is_known(e.rhs)
        if isinstance(e, ir.AffineMulExpr | ir.AffineFloorDivExpr | ir.AffineModExpr):
            return self._is_known(e.lhs) and constant(e.rhs) is not None
        return isinstance(e, ir.AffineConstantExpr)

    def _range(self, e: ir.AffineExpr) -> tuple[int, int]:
        apply = {"+": int.__add__, "*": int.__mul__, "//": int.__floordiv__}
        least, most = (extreme(e, end, self._end, int, lambda name, x, y: apply[name](x, y)) for end in (True, False))
        return least, most

    def _end(self, dim: int, least: bool) -> int:
        if dim not in self.extents:
            return -READ if least else READ
        return 0 if least else self.extents[dim] - 1


def _and(*sides: Visible) -> Visible:
    """Keys in all unions, or more."""
    found = ALL
    for side in sides:
        both = dict.fromkeys(_both(one, other) for one in found for other in side)
        found = tuple(both) if len(both) <= MOST else min(found, side, key=len)
    return found


def _both(one: Interval, other: Interval) -> Interval:
    first, end = dict.fromkeys(one.first + other.first), dict.fromkeys(one.end + other.end)
    return Interval(tuple(first), tuple(end))


def _or(*sides: Visible) -> Visible:
    """Keys in one of the unions, or more."""
    found = tuple(dict.fromkeys(interval for side in sides for interval in side))
    return found if len(found) <= MOST and ALL[0] not in found else ALL


def _terms(e: ir.AffineExpr, factor: int = 1) -> list[tuple[ir.AffineExpr, int]]:
    """Terms that `e` is the sum of, each with its factor."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineAddExpr):
        return _terms(e.lhs, factor) + _terms(e.rhs, factor)
    if isinstance(e, ir.AffineMulExpr):
        return _terms(e.lhs, factor * (constant(e.rhs) or 0))
    return [(e, factor)]


def _collected(e: ir.AffineExpr) -> ir.AffineExpr:
    """`e` with each term once, and remainders for x - x // n * n."""
    terms = dict[ir.AffineExpr, int]()
    for term, factor in _terms(e):
        terms[term] = terms.get(term, 0) + factor
    for term, factor in list(terms.items()):
        if isinstance(term, ir.AffineFloorDivExpr):
            x, by = term.lhs.maybe_downcast(), constant(term.rhs)
            if by and terms.get(x) and factor == -by * terms[x]:
                rest = ir.AffineExpr.get_mod(x, by).maybe_downcast()
                terms |= {rest: terms[x], x: 0, term: 0}
    total = expr(0)
    for term, factor in terms.items():
        total = expr(total + term * factor)
    return total


def _quotient(e: ir.AffineExpr, by: int) -> ir.AffineExpr:
    """Rounded down."""
    return expr(ir.AffineExpr.get_floor_div(e, by))


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _named(value: ir.Value, name: str) -> bool:
    owner = _owner(value)
    return owner is not None and owner.name == name


def _is_positive(value: ir.Value) -> bool:
    owner = _owner(value)
    return owner is not None and owner.name == "arith.constant" and 0 < owner.attributes["value"].value < inf


def _is_true(value: ir.Value) -> bool:
    owner = _owner(value)
    return owner is not None and owner.name == "arith.constant" and bool(owner.attributes["value"].value)


def _is_guarded(value: ir.Value) -> bool:
    """Whether `value` is chosen to be infinite where it would be -inf."""
    owner = _owner(value)
    if owner is None or owner.name != "arith.select" or not _named(owner.operands[0], "arith.cmpf"):
        return False
    condition, instead, otherwise = owner.operands
    x, y = condition.owner.operands
    return (
        x == otherwise
        and _is_number(y, -inf)
        and _is_number(instead, inf)
        and condition.owner.attributes["predicate"].value == OEQ
    )


def _is_number(value: ir.Value, number: float) -> bool:
    owner = _owner(value)
    return owner is not None and owner.name == "arith.constant" and owner.attributes["value"].value == number
