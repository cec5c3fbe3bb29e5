"""Linear forms: an affine expression as steps along its dims."""

import pytest
from bascule.dialect.analysis.affine.linear_forms import dims_of, linear, product
from bascule.dialect.mlir import ir


def expression(text: str) -> ir.AffineExpr:
    return ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<(d0, d1, d2)[s0] -> ({text})>")).value.results[0]


@pytest.mark.parametrize(
    ("text", "steps", "opaque"),
    [
        ("7", {}, set()),
        ("d0 * 12 + d2 - d1 * 3 + 5", {0: 12, 1: -3, 2: 1}, set()),
        ("(d0 + d1 * 2) * 4 + d1", {0: 4, 1: 9}, set()),
        ("d0 * 4 + d1 floordiv 2", {0: 4}, {1}),
        ("d0 + (d0 + d1) mod 8", {0: 1}, {0, 1}),
    ],
)
def test_steps_are_numbers_where_they_are_constant(text, steps, opaque):
    form = linear(expression(text))
    assert (form.steps, form.opaque) == (steps, opaque)


def test_what_is_left_where_indices_are_zero():
    form = linear(expression("(d0 + 3) * 4 + (d1 floordiv 2) * 8 + d2 mod 4 + 5"))
    assert (form.start, form.opaque) == (17, {1, 2})
    assert {(str(e), step) for e, step in form.terms} == {("d1 floordiv 2", 8), ("d2 mod 4", 1)}
    assert linear(expression("d0 + s0 * 2 + 4")).start == expression("s0 * 2 + 4")
    assert linear(expression("(s0 floordiv 2) * 4 + d0")).start == expression("(s0 floordiv 2) * 4")


def test_a_step_of_symbols_is_an_expression():
    form = linear(expression("d0 * s0 * 4 + d1 * 4"))
    assert (form.steps[1], form.opaque) == (4, set())
    assert form.steps[0] == expression("s0 * 4")
    assert product(form.steps[1], expression("s0")) == form.steps[0]


def test_two_indices_that_are_one():
    form = linear(expression("d0 * s0 * 4 + d1 * 4 + d2 floordiv 3"))
    assert form.flat(0, 1, expression("s0"))
    assert not form.flat(0, 1, 8)
    assert not form.flat(1, 2, 4)
    assert [form.varies(d) for d in range(4)] == [True, True, True, False]


def test_neighbours_are_adjacent_where_only_that_step_is_there():
    form = linear(expression("d0 + d1 * 2 + d2 + d2 mod 4"))
    assert [form.adjacent(d) for d in range(3)] == [True, False, False]


def test_a_product_that_is_a_number_is_one():
    assert product(3, expression("4")) == 12
    assert product(0, expression("s0")) == 0


def test_dims_are_found_under_every_operator():
    assert dims_of(expression("(d0 floordiv 4) * 2 + d2 mod s0")) == {0, 2}
