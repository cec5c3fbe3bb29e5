"""The order of points by their rows: the keys, how wide they are, and the order that they give."""

import pytest
import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir import builders
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.shapes import expr, tensor_type
from bascule.dialect.mlir import arith, func, ir
from bascule.dialect.scatters.row_sort import Points, as_index

from tests.dialect.small_kernels import graph, mlir, module_of, top_ops

__all__ = ["mlir"]


def ordered(count: int, rows: int, merged: int, tile: int = 4) -> tuple[ir.Module, ir.Value]:
    """A graph of the rows i[p] of `count` points that gives, for each position in order, the row and the point there, and where rows begin;
    with the keys."""
    function = graph(f"%i: tensor<{count}xi64>", f"tensor<{count}xi64>", "%i")
    module, block = module_of(function), function.regions[0].blocks[0]
    i32 = ir.IntegerType.get_signless(32)
    (end,) = top_ops(function)
    with ir.InsertionPoint(end):
        points = Points(expr(count), expr(rows), i32, [], merged, tile)
        keys = points.keys(lambda point: as_index(builders.read(block.arguments[0], [point])))
        order = points.ordered(keys, Externs(module))
        sizes = [expr(count)]
        found = [
            builders.compute(tensor_type(sizes, i32), sizes, lambda at, of=of: of(arith.index_cast(i32, at[0])))
            for of in (order.row, order.point)
        ]
        results = [*found, order.starts]
        func.ReturnOp(results)
    end.erase()
    types = [argument.type for argument in block.arguments], [value.type for value in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    assert module.operation.verify()
    return module, keys


@pytest.mark.parametrize("merged", [0, 64], ids=["by a sort", "by kernels"])
@pytest.mark.parametrize("rows", [[2, 0, 2, 1, 0, 2, 5, 0, 1], [3, 3, 3], [4], [5, 4, 3, 2, 1, 0, 0, 0]])
def test_points_in_order_are_stable(rows, merged):
    module, _ = ordered(len(rows), 6, merged)
    found_rows, points, starts = interpret(module, [torch.tensor(rows)], "main")
    assert points.tolist() == sorted(range(len(rows)), key=lambda point: rows[point])
    assert found_rows.tolist() == sorted(rows)
    assert starts.tolist() == [sum(row < v for row in rows) for v in range(7)]


@pytest.mark.parametrize("rows, width", [((1 << 15) - 2, 16), ((1 << 15) - 1, 32)])
def test_keys_of_a_sort_are_narrow_if_rows_are_few(rows, width):
    """Row `rows` itself is for what is added nowhere."""
    _, keys = ordered(9, rows, 0)
    assert (list(keys.type.shape), keys.type.element_type.width) == ([9], width)


@pytest.mark.parametrize(
    "count, rows, shape, width",
    [
        (9, 6, [3, 4], 32),
        (8, 6, [2, 4], 32),
        (3, 6, [1, 4], 32),
        (1, 6, [1, 1], 32),
        (9, (1 << 29) - 3, [3, 4], 32),
        (9, (1 << 29) - 2, [3, 4], 64),
    ],
)
def test_keys_of_tiles_hold_the_place_too(count, rows, shape, width):
    _, keys = ordered(count, rows, 64)
    assert (list(keys.type.shape), keys.type.element_type.width) == (shape, width)
