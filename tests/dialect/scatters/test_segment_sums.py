"""A scatter of rows as sums of segments: the same numbers, of empty rows and of rows with all points, by kernels and by a sort."""

import pytest
import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.scatters.row_scatters import RowScatter
from bascule.dialect.scatters.segment_sums import Orders, SegmentSums

from tests.dialect.scatters.row_additions import additions, scatter_of
from tests.dialect.small_kernels import mlir, module_of

__all__ = ["mlir"]


def summed(points: int, rows: int, width: int, merged: int, tile: int = 32) -> ir.Module:
    """The additions of rows, replaced by sums of segments."""
    function = additions(points, rows, width)
    module = module_of(function)
    op = scatter_of(function)
    with ir.InsertionPoint(op), op.location:
        result = SegmentSums(RowScatter.of(op, 1), Externs(module), [], Orders(), merged, tile).build()
    op.results[0].replace_all_uses_with(result)
    op.erase()
    assert module.operation.verify()
    return module


@pytest.mark.parametrize(
    "points, rows, merged",
    [
        (101, 7, 128),  # ordered in four tiles of 32, the last short
        (101, 7, 100),  # one point too many for that: sorted
        (64, 3, 64),  # whole tiles
        (31, 5, 64),  # one tile, and no runs
        (1, 1, 1),
    ],
)
@pytest.mark.parametrize("spread", ["some", "one row"])
def test_sums_of_segments_are_what_is_added(points, rows, merged, spread):
    module = summed(points, rows, 3, merged)
    calls = [op for op in ops_in(module.operation) if op.name == "func.call"]
    assert len(calls) == (points > merged)
    index = torch.full([points], rows - 1)
    if spread == "some":
        index = torch.arange(points) * 5 % max(1, rows - 1)  # nothing goes to the last row of several
    g = torch.arange(3.0 * points).reshape(points, 3)
    (result,) = interpret(module, [index, g], "main")
    assert result.tolist() == torch.full((rows, 3), 0.5).index_add(0, index, g).tolist()


def test_runs_of_32_points_are_summed_before():
    computes = [
        list(op.results[0].type.shape)
        for op in ops_in(summed(101, 7, 3, 100).operation)
        if op.name == "bascule.compute"
    ]
    assert [3, 3] in computes  # three runs of 32 of 101 points
    few = [
        list(op.results[0].type.shape) for op in ops_in(summed(63, 7, 3, 1).operation) if op.name == "bascule.compute"
    ]
    assert [1, 3] not in few
