"""Operands of a call of a matrix product, and how its matrices lie."""

import pytest
from bascule.dialect.analysis.memory.matmul_operands import Product, is_row_major, runs_along
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.ir.shapes import constants
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import graph, mlir, parse, top_ops

__all__ = ["mlir"]

ROW, X, Y, OUT = "tensor<13xf32>", "tensor<7x31xf32>", "tensor<31x13xf32>", "tensor<7x13xf32>"


def product(operator: str, arguments: str) -> Product | None:
    """Of a call with a row, x and y as operands 0, 1 and 2."""
    attributes = f'bascule.extern = "{operator}", bascule.arguments = [{arguments}], bascule.results = array<i64: 0>'
    types = f"({ROW}, {X}, {Y}) -> {OUT}"
    module = parse(f"""
func.func private @f{types} attributes {{{attributes}}}
func.func @main(%r: {ROW}, %x: {X}, %y: {Y}) -> {OUT} attributes {{bascule.graph}} {{
  %0 = call @f(%r, %x, %y) : {types}
  return %0 : {OUT}
}}""")
    (function,) = graph_functions(module)
    return Product.of(top_ops(function)[0], ir.SymbolTable(module.operation)["f"].operation)


R, A, B = (f"#bascule.operand<{number}>" for number in range(3))


def test_a_product_with_a_row_that_is_added():
    found = product("aten.addmm.default", f"{R}, {A}, {B}, 3 : i64, 2.5 : f64")
    assert [found.added, found.x, found.y] == list(found.op.operands)
    assert (found.added_factor, found.factor) == (3, 2.5)
    assert (constants(found.sizes), found.result) == ([7, 31, 13], found.op.results[0])


def test_a_product_alone():
    found = product("aten.mm.default", f"{A}, {B}")
    assert [found.x, found.y] == list(found.op.operands)[1:]
    assert (found.added, found.added_factor, found.factor) == (None, 1, 1)


@pytest.mark.parametrize(
    "operator, arguments",
    [
        ("aten.linear.default", f"{A}, {B}"),
        ("aten.addmm.default", f"{R}, {A}, {B}, affine_map<()[s0] -> (s0)>, 1 : i64"),  # a factor of a symbol
    ],
)
def test_no_product(operator, arguments):
    assert product(operator, arguments) is None


@pytest.mark.parametrize(
    "type_, rows, columns, along",
    [
        ("tensor<7x13xf32>", True, False, [False, True]),
        ("tensor<7x13xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 7)>>>", False, True, [True, False]),
        ("tensor<7x13xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 16 + d1)>>>", False, False, [False, True]),
        ("tensor<1x13xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 16 + d1)>>>", True, True, [False, True]),
        ("tensor<1x13xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 26 + d1 * 2)>>>", False, False, [False] * 2),
        ("tensor<?x?xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>>", True, False, [False, True]),
    ],
)
def test_how_a_matrix_lies(type_, rows, columns, along):
    shape = " {bascule.shape = affine_map<()[s0] -> (7, s0)>}" if "?" in type_ else ""
    function = graph(f"%n: index, %x: {type_}{shape}", "index", "%n")
    x = function.regions[0].blocks[0].arguments[1]
    assert (is_row_major(x), is_row_major(x, [1, 0])) == (rows, columns)
    assert [runs_along(x, dim) for dim in range(2)] == along
