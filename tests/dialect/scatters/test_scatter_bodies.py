"""Parts of a scatter computed elsewhere: what it adds at other indices, and what its destination starts as."""

from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import arith, ir
from bascule.dialect.scatters.row_scatters import RowScatter
from bascule.dialect.scatters.scatter_bodies import copied, start

from tests.dialect.scatters.row_additions import additions, scatter_of
from tests.dialect.small_kernels import mlir, top_ops

__all__ = ["mlir"]


def test_only_what_a_value_needs_is_copied():
    function = additions(101, 7, 17)
    scatter = RowScatter.of(scatter_of(function))
    before = len(ops_in(function))
    with ir.InsertionPoint(scatter.op):
        place = arith.constant(ir.IndexType.get(), 5)
        (row,) = copied([scatter.row], scatter.block, {scatter.block.arguments[0]: place})
    assert len(ops_in(function)) == before + 3  # the constant, the index of data, its cast
    read = row.owner.operands[0].owner
    assert (read.name, list(read.operands)[1:]) == ("tensor.extract", [place])
    assert row.owner.operation.block == function.regions[0].blocks[0]


def test_an_argument_is_what_stands_for_it():
    function = additions(101, 7, 17)
    scatter = RowScatter.of(scatter_of(function))
    point = scatter.block.arguments[0]
    with ir.InsertionPoint(scatter.op):
        place = arith.constant(ir.IndexType.get(), 5)
        assert copied([point], scatter.block, {point: place}) == [place]


def test_a_start_that_is_made_there_is_computed_again():
    function = additions(101, 7, 17, start="2.5")
    init = top_ops(function)[0].results[0]
    with ir.InsertionPoint(scatter_of(function)):
        place = arith.constant(ir.IndexType.get(), 5)
        value = start(init, [place, place])
        read = start(function.regions[0].blocks[0].arguments[1], [place, place])
    assert (value.owner.name, value.owner.attributes["value"].value) == ("arith.constant", 2.5)
    assert (read.owner.name, list(read.owner.operands)[1:]) == ("tensor.extract", [place, place])
