"""Affine expressions as sums of terms, and what is known of their values: the algebra under `simplification.py`.

A `Form` is an integer combination of products of atoms, kept as a sorted tuple so that equal forms are equal values:
`d0 * 32 + d1 * s0 - 4` is `(((), -4), ((d0,), 32), ((d1, s0), 1))`. Atoms are numbers given out by an `Atoms` table: a dimension, a symbol,
a floordiv or a mod of two forms. Ceildiv is written as floordiv.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import cast

from ...mlir import ir

Term = tuple[int, ...]  # the atoms of a product, sorted; () is the constant term
Form = tuple[tuple[Term, int], ...]

ZERO: Form = ()


def constant(value: int) -> Form:
    return (((), value),) if value else ZERO


ONE = constant(1)


def value_of(form: Form) -> int | None:
    """The number that a constant form is, else None."""
    if not form:
        return 0
    return form[0][1] if len(form) == 1 and form[0][0] == () else None


def total(parts: Iterable[tuple[Term, int]]) -> Form:
    """The sum of terms with their coefficients."""
    sums: dict[Term, int] = {}
    for term, coefficient in parts:
        sums[term] = sums.get(term, 0) + coefficient
    return tuple(sorted((term, c) for term, c in sums.items() if c))


def add(a: Form, b: Form) -> Form:
    return total([*a, *b]) if a and b else a or b


def scale(a: Form, factor: int) -> Form:
    return tuple((term, c * factor) for term, c in a) if factor else ZERO


def subtract(a: Form, b: Form) -> Form:
    return add(a, scale(b, -1))


def multiply(a: Form, b: Form) -> Form:
    if len(a) == 1 and a[0][0] == ():
        return scale(b, a[0][1])
    if len(b) == 1 and b[0][0] == ():
        return scale(a, b[0][1])
    return total((tuple(sorted(s + t)), c * k) for s, c in a for t, k in b)


def divide_term(term: Term, by: Term) -> Term | None:
    """`term / by` where every atom of `by` is a factor of it, else None."""
    rest = list(term)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _without(term: Term, atom: int) -> Term:
    """`term` without one factor `atom`, which it has."""
    place = term.index(atom)
    return term[:place] + term[place + 1 :]


def split(form: Form, by: Form) -> tuple[Form, Form]:
    """`(m, r)` with `form = m * by + r`, for a `by` of one term: m takes every term that `by` divides.

    Of a constant over a constant `by`, r keeps the non-negative remainder.
    """
    ((factor, c),) = by
    quotient, rest = [], []
    for term, k in form:
        reduced = divide_term(term, factor)
        if reduced is None or (term and k % c):
            rest.append((term, k))
        elif term:
            quotient.append((reduced, k // c))
        else:
            quotient.append(((), k // c))
            rest.append(((), k % c))
    return total(quotient), total(rest)


@dataclass(frozen=True)
class Division:
    """The atom `numerator floordiv denominator` ("/") or `numerator mod denominator` ("%")."""

    kind: str
    numerator: Form
    denominator: Form


class Atoms:
    """The table of atoms, and the bounds of forms over them.

    `sizes` gives each dimension's extent (a form of symbols; None where unknown): 0 <= d < size. Symbols are >= 0, and >= 1 if they
    are a factor of a size (a body runs only where every size is at least 1) or of a divisor: neither is 0, nor any factor of them.
    """

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}
        self.keys: list[object] = []
        self.sizes: Sequence[Form | None] = ()
        self.positive: set[int] = set()
        self._signs: dict[int, int] = {}

    def atom(self, key: object) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return number

    def form(self, key: object) -> Form:
        """The form that is one atom: `("d", 0)`, `("s", 1)` or a `Division`."""
        return (((self.atom(key),), 1),)

    def assume(self, sizes: Sequence[Form | None]) -> None:
        """Sets what is known of the dimensions for the queries that follow."""
        self.sizes = sizes
        self.positive = set()
        self._signs = {}
        for size in sizes:
            if size is not None and len(size) == 1:
                self.positive.update(size[0][0])

    def bounds(self, form: Form) -> tuple[Form, Form] | None:
        """Forms of symbols between which the value of `form` lies (both ends included), or None."""
        low, high = ZERO, ZERO
        for term, c in form:
            ends = self._term_bounds(term)
            if ends is None:
                return None
            least, most = ends if c > 0 else (ends[1], ends[0])
            low, high = add(low, scale(least, c)), add(high, scale(most, c))
        return low, high

    def _term_bounds(self, term: Term) -> tuple[Form, Form] | None:
        if len(term) == 1:
            return self._atom_bounds(term[0])
        low, high = ONE, ONE
        for atom in term:  # a product of values none of which is negative
            ends = self._atom_bounds(atom)
            if ends is None or not self.nonnegative(ends[0]):
                return None
            low, high = multiply(low, ends[0]), multiply(high, ends[1])
        return low, high

    def _atom_bounds(self, atom: int) -> tuple[Form, Form] | None:
        key = self.keys[atom]
        if isinstance(key, Division):
            return self._division_bounds(atom, key)
        kind, position = cast(tuple[str, int], key)
        if kind == "s":
            itself = (((atom,), 1),)
            return itself, itself
        size = self.sizes[position]
        return None if size is None else (ZERO, subtract(size, ONE))

    def _division_bounds(self, atom: int, division: Division) -> tuple[Form, Form] | None:
        ends = self.bounds(division.numerator)
        denominator = value_of(division.denominator)
        if division.kind == "%":
            return ZERO, subtract(division.denominator, ONE)
        if ends is None:
            return None
        low, high = (value_of(end) for end in ends)
        if denominator is not None and low is not None and high is not None:
            return constant(low // denominator), constant(high // denominator)
        if not self.nonnegative(ends[0]):
            return None
        if ends[0] == ends[1] == division.numerator:  # of symbols alone: exactly itself
            itself = (((atom,), 1),)
            return itself, itself
        if len(division.denominator) == 1:
            whole, rest = split(ends[1], division.denominator)
            if self.between(rest, ZERO, division.denominator):
                return ZERO, whole
            if rest and not self.nonnegative(rest):  # e.g. s0 * s1 - 1 over s0: at most s1 - 1
                less = add(rest, division.denominator)
                if self.between(less, ZERO, division.denominator):
                    return ZERO, subtract(whole, ONE)
        return ZERO, ends[1]

    def between(self, form: Form, low: Form, high: Form) -> bool:
        """Whether `low <= form < high` is known, for forms of symbols."""
        return self.nonnegative(subtract(form, low)) and self.nonnegative(subtract(subtract(high, form), ONE))

    def nonnegative(self, form: Form) -> bool:
        """Whether a form of symbols is known to be >= 0: with s = t + 1 for positive symbols, no coefficient is negative. An atom that is never
        positive stands for the negative of one that is never negative."""
        expanded: Form = ZERO
        for term, c in form:
            product = constant(c)
            for atom in term:
                sign, itself = self._sign(atom), (((atom,), 1),)
                if sign == 0:
                    return False
                product = multiply(product, scale(add(itself, ONE) if atom in self.positive else itself, sign))
            expanded = add(expanded, product)
        return all(c >= 0 for _, c in expanded)

    def _sign(self, atom: int) -> int:
        """1 where an atom is known to be >= 0, -1 where it is known to be <= 0, else 0: `(-s0) floordiv 4` is a size with its sign changed."""
        key = self.keys[atom]
        if not isinstance(key, Division) or key.kind == "%":
            return 1
        sign = self._signs.get(atom)
        if sign is None:
            low = self.nonnegative(key.numerator)
            sign = self._signs[atom] = 1 if low else -int(self.nonnegative(scale(key.numerator, -1)))
        return sign

    def inside(self, form: Form, size: Form) -> bool:
        """Whether `0 <= form < size` is known."""
        ends = self.bounds(form)
        return (
            ends is not None and self.nonnegative(ends[0]) and self.nonnegative(subtract(subtract(size, ends[1]), ONE))
        )

    def floordiv(self, numerator: Form, denominator: Form) -> Form:
        """`numerator floordiv denominator` (> 0), simplified.

        Rules, for integers with b, c > 0: (a*b + r) floordiv b = a + r floordiv b; r floordiv b = 0 for 0 <= r < b;
        (a*c + r) floordiv (b*c) = a floordiv b for 0 <= r < c; (a floordiv c + k) floordiv b = (a + k*c) floordiv (b*c);
        (a mod (b*c)) floordiv b = (a floordiv b) mod c.
        """
        if denominator == ONE or not numerator:
            return numerator
        if len(denominator) != 1:
            return self.form(Division("/", numerator, denominator))
        whole, rest = split(numerator, denominator)
        if whole:
            return add(whole, self.floordiv(rest, denominator))
        if self.inside(rest, denominator):
            return ZERO
        quotient = self._constant_quotient(rest, denominator)
        if quotient is not None:
            return constant(quotient)
        for _, scaled, smaller in self._common(rest, denominator):
            return self.floordiv(scaled, smaller)
        single = [(self.keys[term[0]], c) for term, c in rest if len(term) == 1]
        if len(single) == len([term for term, _ in rest if term]) == 1 and single[0][1] == 1:
            division = single[0][0]
            if isinstance(division, Division) and len(division.denominator) == 1:
                if division.kind == "/":
                    k = constant(dict(rest).get((), 0))
                    moved = add(division.numerator, multiply(k, division.denominator))
                    return self.floordiv(moved, multiply(division.denominator, denominator))
                if len(rest) == 1:
                    outer, left = split(division.denominator, denominator)
                    if outer and not left:
                        return self.mod(self.floordiv(division.numerator, denominator), outer)
        return self.form(Division("/", rest, denominator))

    def mod(self, numerator: Form, denominator: Form) -> Form:
        """`numerator mod denominator` (> 0), simplified.

        Rules, for integers with b, c > 0: (a*b + r) mod b = r mod b; r mod b = r for 0 <= r < b;
        (a*c + r) mod (b*c) = c*(a mod b) + r for 0 <= r < c; (a mod (b*c)) mod b = a mod b.
        """
        if denominator == ONE or not numerator:
            return ZERO
        if len(denominator) != 1:
            return self.form(Division("%", numerator, denominator))
        _, rest = split(numerator, denominator)
        if self.inside(rest, denominator):
            return rest
        quotient = self._constant_quotient(rest, denominator)
        if quotient is not None:
            return subtract(rest, scale(denominator, quotient))
        opened = self._without_inner_mods(rest, denominator)
        if opened is not None:
            return self.mod(opened, denominator)
        for factor, scaled, smaller in self._common(rest, denominator):
            _, left = split(rest, factor)
            return add(multiply(factor, self.mod(scaled, smaller)), left)
        return self.form(Division("%", rest, denominator))

    def _constant_quotient(self, rest: Form, denominator: Form) -> int | None:
        """`rest floordiv denominator` where both ends of `rest` have the same quotient."""
        divisor, ends = value_of(denominator), self.bounds(rest)
        if divisor is None or ends is None:
            return None
        low, high = value_of(ends[0]), value_of(ends[1])
        if low is None or high is None or low // divisor != high // divisor:
            return None
        return low // divisor

    def _common(self, rest: Form, denominator: Form) -> Iterable[tuple[Form, Form, Form]]:
        """A factor c > 1 of `denominator` with rest = a*c + r, 0 <= r < c, as (c, a, denominator / c); the largest first."""
        ((symbols, c),) = denominator
        candidates = {gcd(k, c) for term, k in rest if term}
        factors: list[Form] = [((symbols, g),) for g in sorted(candidates, reverse=True)] if symbols else []
        factors += [(((s,), g),) for s in dict.fromkeys(symbols) for g in sorted({*candidates, 1}, reverse=True)]
        factors += [constant(g) for g in sorted(candidates, reverse=True) if g > 1]
        for factor in factors:
            if factor in (denominator, ONE) or not self.nonnegative(factor):
                continue
            scaled, left = split(rest, factor)
            smaller, remainder = split(denominator, factor)
            if scaled and not remainder and (not left or self.inside(left, factor)):
                yield factor, scaled, smaller

    def _without_inner_mods(self, rest: Form, denominator: Form) -> Form | None:
        """`rest` with k * (e mod c) replaced by k * e where the denominator divides k * c; None if there is no such term."""
        for term, k in rest:
            for atom in term:
                key = self.keys[atom]
                if isinstance(key, Division) and key.kind == "%":
                    others = ((_without(term, atom), k),)
                    multiple = multiply(others, key.denominator)
                    if not split(multiple, denominator)[1]:
                        kept = total((t, c) for t, c in rest if t != term)
                        return add(kept, multiply(others, key.numerator))
        return None

    def recombine(self, form: Form) -> Form:
        """Puts quotients and remainders together again, until nothing changes.

        k * (e mod c) + k*c * (e floordiv c) = k * e;  k * (e mod c) + k*c * ((e floordiv c) mod b) = k * (e mod (b*c)).
        """
        while True:
            for term, k in form:
                changed = next(filter(None, (self._joined(form, term, k, atom) for atom in term)), None)
                if changed is not None:
                    form = changed
                    break
            else:
                return form

    def _joined(self, form: Form, term: Term, k: int, atom: int) -> Form | None:
        """`form` with its remainder `atom` in `term` joined to its quotient, or None."""
        key = self.keys[atom]
        if not (isinstance(key, Division) and key.kind == "%"):
            return None
        others: Form = ((_without(term, atom), k),)
        multiple = multiply(others, key.denominator)
        quotient = self.floordiv(key.numerator, key.denominator)
        high, present = multiply(multiple, quotient), dict(form)
        if high and all(present.get(t) == c for t, c in high):
            return add(subtract(form, add(((term, k),), high)), multiply(others, key.numerator))
        for other, c in form:
            for part in other:
                outer = self.keys[part]
                if (
                    isinstance(outer, Division)
                    and outer.kind == "%"
                    and outer.numerator == quotient
                    and ((_without(other, part), c),) == multiple
                ):
                    whole = self.mod(key.numerator, multiply(outer.denominator, key.denominator))
                    return add(subtract(form, ((term, k), (other, c))), multiply(others, whole))
        return None


def from_expr(expr: ir.AffineExpr, atoms: Atoms) -> Form:
    """The form of an expression, simplified under what `atoms` assumes."""
    if isinstance(expr, ir.AffineConstantExpr):
        return constant(expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        size = atoms.sizes[expr.position]
        return ZERO if size == ONE else atoms.form(("d", expr.position))
    if isinstance(expr, ir.AffineSymbolExpr):
        return atoms.form(("s", expr.position))
    left, right = from_expr(expr.lhs, atoms), from_expr(expr.rhs, atoms)
    if isinstance(expr, ir.AffineAddExpr):
        return atoms.recombine(add(left, right))
    if isinstance(expr, ir.AffineMulExpr):
        return multiply(left, right)
    if len(right) == 1:
        atoms.positive.update(right[0][0])
    if isinstance(expr, ir.AffineModExpr):
        return atoms.mod(left, right)
    if isinstance(expr, ir.AffineCeilDivExpr):
        return atoms.floordiv(add(left, subtract(right, ONE)), right)
    return atoms.floordiv(left, right)


def to_expr(form: Form, atoms: Atoms) -> ir.AffineExpr:
    """The affine expression of a form; equal forms give the same expression whatever was simplified before."""
    parts = []
    for term, c in form:
        factors = sorted((_atom_expr(atoms.keys[atom], atoms) for atom in term), key=str)
        product = ir.AffineExpr.get_constant(c)
        for factor in factors:
            product = factor * product
        parts.append((not term, str(product), product))
    result = ir.AffineExpr.get_constant(0)
    for _, _, part in sorted(parts, key=lambda p: p[:2]):
        result = result + part
    return result


def _atom_expr(key: object, atoms: Atoms) -> ir.AffineExpr:
    if isinstance(key, Division):
        numerator, denominator = to_expr(key.numerator, atoms), to_expr(key.denominator, atoms)
        divide = ir.AffineExpr.get_floor_div if key.kind == "/" else ir.AffineExpr.get_mod
        return divide(numerator, denominator)
    kind, position = cast(tuple[str, int], key)
    return ir.AffineExpr.get_dim(position) if kind == "d" else ir.AffineExpr.get_symbol(position)
