"""Sums of terms: their arithmetic, bounds, quotients and remainders."""

import pytest
from bascule.dialect.analysis.affine.affine_forms import (
    ONE,
    ZERO,
    Atoms,
    Form,
    add,
    constant,
    multiply,
    scale,
    split,
    subtract,
    value_of,
)


def dims(*sizes: int | None) -> tuple[Atoms, list[Form]]:
    """A table that knows dims of these sizes, and the dims."""
    atoms = Atoms()
    atoms.assume([None if size is None else constant(size) for size in sizes])
    return atoms, [atoms.form(("d", position)) for position in range(len(sizes))]


def test_equal_sums_are_equal_values():
    _, (a, b) = dims(None, None)
    product = multiply(add(a, constant(2)), subtract(b, constant(3)))
    assert product == add(multiply(a, b), add(add(scale(a, -3), scale(b, 2)), constant(-6)))
    assert subtract(product, product) == ZERO == multiply(product, ZERO) == constant(0)
    assert [value_of(form) for form in (ZERO, constant(-6), a, add(a, ONE))] == [0, -6, None, None]


def test_what_does_not_divide_is_left():
    atoms, (a, b) = dims(None, None)
    assert split(add(add(scale(a, 35), scale(b, 6)), constant(-4)), constant(7)) == (
        add(scale(a, 5), constant(-1)),
        add(scale(b, 6), constant(3)),
    )
    s = atoms.form(("s", 0))
    assert split(add(multiply(scale(a, 14), s), scale(s, 3)), scale(s, 7)) == (scale(a, 2), scale(s, 3))


@pytest.mark.parametrize("size, exact", [(30, True), (31, True), (32, False)])
def test_the_last_digit_is_below_the_divisor(size, exact):
    atoms, (i, j) = dims(127, size)
    flat = add(scale(i, 31), j)
    assert (atoms.floordiv(flat, constant(31)) == i) is exact
    assert (atoms.mod(flat, constant(31)) == j) is exact


def test_quotients_and_remainders_are_put_together():
    atoms, (d,) = dims(7 * 11 * 13)
    over, mod = (lambda form, n: atoms.floordiv(form, constant(n))), (lambda form, n: atoms.mod(form, constant(n)))
    assert over(over(d, 13), 11) == over(d, 143)
    assert over(mod(d, 143), 13) == mod(over(d, 13), 11)
    digits = [scale(over(d, 143), 143), scale(mod(over(d, 13), 11), 13), mod(d, 13)]
    assert atoms.recombine(add(add(digits[0], digits[1]), digits[2])) == d
    assert atoms.recombine(add(digits[1], digits[2])) == mod(d, 143)
    assert atoms.recombine(add(digits[0], digits[2])) == add(digits[0], digits[2])  # the middle is missing


def test_bounds_include_both_ends():
    atoms, (i, j, unknown) = dims(7, 4, None)
    assert atoms.bounds(add(subtract(scale(i, 5), scale(j, 3)), constant(2))) == (constant(-7), constant(32))
    assert atoms.bounds(add(i, unknown)) is None
    assert atoms.bounds(atoms.mod(unknown, constant(17))) == (ZERO, constant(16))
    assert atoms.bounds(ZERO) == (ZERO, ZERO)


def test_symbols_of_sizes_are_at_least_one():
    atoms = Atoms()
    m, n = (atoms.form(("s", position)) for position in range(2))
    area = subtract(multiply(m, n), ONE)
    assert not atoms.nonnegative(area)  # either may be zero
    atoms.assume([multiply(m, n)])
    assert atoms.nonnegative(area)
    assert not atoms.nonnegative(subtract(m, constant(2)))
