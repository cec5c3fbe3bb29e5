"""Costs of ops, domains and tensors."""

import pytest
from bascule.dialect.analysis.bodies.costs import DIVISIONS, DYNAMIC, TRANSCENDENTAL, magnitude, op_cost, tensor_bytes
from bascule.dialect.mlir import ir


def sizes(text: str) -> list[ir.AffineExpr]:
    return list(ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<()[s0] -> ({text})>")).value.results)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("", 1),
        ("4, 3", 12),
        ("0, 3", 0),
        ("s0, 3", 3 * DYNAMIC),
        ("s0 * 2 + 1", 2 * DYNAMIC + 1),
        ("s0 floordiv 512", 1),
    ],
)
def test_symbols_count_as_some_number_of_points(text, points):
    assert magnitude(sizes(text)) == points


def test_what_ops_cost():
    assert op_cost("arith.constant") == op_cost("scf.if") == 0
    assert op_cost("arith.addf") == 1
    assert op_cost("math.erf") == TRANSCENDENTAL
    assert op_cost("math.absi") == 1
    assert {op_cost(name) for name in DIVISIONS} == {20}


def test_bytes_of_a_tensor():
    module = ir.Module.parse(
        "func.func private @f(%a: tensor<4x8xbf16>, %b: tensor<?x2xi64>, %c: tensor<f32>, %d: tensor<5xi1>) { return }"
    )
    arguments = module.body.operations[0].regions[0].blocks[0].arguments
    assert [tensor_bytes(argument) for argument in arguments] == [64, 2 * 8 * DYNAMIC, 4, 5]
