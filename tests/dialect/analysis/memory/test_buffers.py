"""Types, sizes and roots of memrefs."""

import pytest
from bascule.dialect.analysis.memory.buffers import Sizes, bytes_of, memref_type, moved_by, root_of, strides
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import graph, mlir, module_of, top_ops

__all__ = ["mlir"]

WIDE = "memref<?x13xf32, affine_map<(d0, d1) -> (d0 * 16 + d1)>>"
S0 = "memref<?x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>"


def sizes_of(text: str) -> list[ir.AffineExpr]:
    map_ = ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<()[s0] -> ({text})>")).value
    return list(map_.results)


@pytest.mark.parametrize(
    "type_, steps",
    [
        ("memref<7x13xf32>", "13, 1"),
        ("memref<7x0xf32>", "0, 1"),
        ("memref<7x13xf32, affine_map<(d0, d1) -> (d0 * 16 + d1 + 5)>>", "16, 1"),  # whatever comes first
        ("memref<7x13xf32, strided<[1, 7], offset: 3>>", "1, 7"),
        (S0, "s0, 1"),
        ("memref<f32>", ""),
    ],
)
def test_strides(type_, steps):
    assert strides(ir.Type.parse(type_)) == (sizes_of(steps) if steps else [])


@pytest.mark.parametrize(
    "type_, sizes, found",
    [
        ("memref<7x13xf32>", "7, 13", "364"),
        ("memref<7x13xf64, affine_map<(d0, d1) -> (d0 * 16 + d1)>>", "7, 13", "872"),  # 6 rows of 16, then 13
        ("memref<7x0xf32, affine_map<(d0, d1) -> (d0 * 16 + d1)>>", "7, 0", "0"),
        (S0, "7, s0", "s0 * 28"),
        (WIDE, "s0, 13", "(s0 * 16 + 14) * 4"),  # more than it is, and nothing negative where s0 is 0
    ],
)
def test_bytes_from_the_first_to_the_last(type_, sizes, found):
    (size,) = sizes_of(found)
    assert ir.AffineExpr.simplify_affine_expr(bytes_of(ir.Type.parse(type_), sizes_of(sizes)) - size, 0, 1) == expr(0)


def test_bytes_of_other_elements():
    assert bytes_of(ir.Type.parse("memref<7x13xf32>"), [expr(7), expr(13)], width=8) == expr(728)


def test_the_memref_of_a_tensor_has_its_layout():
    layout = "affine_map<(d0, d1) -> (d0 + d1 * 7)>"
    found = memref_type(ir.Type.parse(f"tensor<7x13xf32, #bascule.layout<{layout}>>"))
    assert found == ir.Type.parse(f"memref<7x13xf32, {layout}>")
    found = memref_type(ir.Type.parse("tensor<?xf32, #bascule.layout<affine_map<(d0)[s0] -> (d0)>>>"))
    assert found == ir.Type.parse("memref<?xf32>")


@pytest.mark.parametrize("at, step, moved", [("d0 + 2, d1 + 3", 13, 29), ("6 - d0, d1", -13, 78), ("d0, d1", 13, 0)])
def test_a_view_of_a_view_moves_the_first_element(at, step, moved):
    view, rows = f"memref<4x5xf32, affine_map<(d0, d1) -> (d0 * {step} + d1)>>", "memref<7x13xf32>"
    attributes = f"{{map = affine_map<(d0, d1) -> ({at})>, shape = affine_map<() -> (4, 5)>}}"
    body = (
        f'%v = "bascule.view"(%x) {attributes} : ({rows}) -> {view}',
        f'%w = "bascule.view"(%v) {{map = affine_map<(d0, d1) -> (d0, d1)>, shape = affine_map<() -> (4, 5)>}} : ({view}) -> {view}',
        f"%a = memref.alloc() : {rows}",
    )
    function = graph(f"%x: {rows}", rows, "%a", *body)
    first, second, made, _ = top_ops(function)
    assert (moved_by(first), moved_by(second)) == (expr(moved), expr(0))
    assert root_of(second.results[0]) == function.regions[0].blocks[0].arguments[0]
    assert root_of(made.results[0]) == made.results[0]


def test_sizes_are_expressions_of_symbols():
    argument = WIDE + " {bascule.shape = affine_map<()[s0] -> (s0 * 3, 13)>}"
    body = (
        "%m = affine.apply affine_map<()[s0] -> (s0 + 5)>()[%n]",
        "%k = affine.apply affine_map<(d0) -> (d0 * 2)>(%m)",
        "%a = memref.alloc(%k) : memref<?x13xf32>",
        "%c = arith.constant 11 : index",
        "%b = memref.alloc(%c) : memref<?x13xf32>",
    )
    function = graph(f"%n: index, %x: {argument}", "memref<?x13xf32>", "%a", *body)
    sizes = Sizes(function, ir.SymbolTable(module_of(function).operation))
    x = function.regions[0].blocks[0].arguments[1]
    a, b = (op.results[0] for op in top_ops(function) if op.name == "memref.alloc")
    assert sizes.of(x) == sizes_of("s0 * 3, 13")
    assert sizes.of(a) == sizes_of("(s0 + 5) * 2, 13")
    assert sizes.of(b) == sizes_of("11, 13")
