"""Which scatters add rows, and what they cost on a GPU."""

import pytest
from bascule.dialect.scatters.row_scatters import CONTENDED, MERGE, PAIRS, SORT, SORTED, RowScatter, is_made_there

from tests.dialect.scatters.row_additions import ROW, STORE, additions, scatter_of
from tests.dialect.small_kernels import mlir

__all__ = ["mlir"]


def test_a_scatter_of_rows():
    op = scatter_of(additions(101, 7, 17))
    found = RowScatter.of(op)
    assert (found.points, found.inner, found.dropped, found.reduces) == ((0,), (1,), None, False)
    assert (found.row.owner.name, found.value.owner.name) == ("arith.index_cast", "tensor.extract")
    assert is_made_there(found.init)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"store": STORE.replace("add", "set")}, "it does not add"),
        ({"store": STORE + "\n" + STORE}, "it has several stores, or one under a condition"),
        ({"store": STORE.replace("%r, %j)", "%j, %r)")}, "it does not add whole rows"),
        ({"row": "%r = affine.apply affine_map<(d0) -> (d0 mod 7)>(%p)"}, "its rows are not chosen by data"),
        ({"row": ROW.replace("%i[%p]", "%i[%j]")}, "the elements of a row go to several rows"),
    ],
)
def test_scatters_that_add_no_rows(changes, why):
    assert RowScatter.of(scatter_of(additions(101, 17, 17, **changes))) == why


def test_short_rows():
    assert RowScatter.of(scatter_of(additions(101, 7, 15))) == "its rows are shorter than 16 elements"
    assert isinstance(RowScatter.of(scatter_of(additions(101, 7, 15)), 15), RowScatter)


@pytest.mark.parametrize("order, where", [("%zero, %u", True), ("%u, %zero", False)])
def test_points_that_add_nothing(order, where):
    """Where the index is 3 zero is added, or (the other way round) everywhere else."""
    value = f"""%u = tensor.extract %g[%p, %j] : tensor<{{points}}x{{width}}xf32>
    %three = arith.constant 3 : i64
    %zero = arith.constant 0.0 : f32
    %c = arith.cmpi eq, %w, %three : i64
    %v = arith.select %c, {order} : f32"""
    found = RowScatter.of(scatter_of(additions(101, 7, 17, value=value)))
    condition, value_ = found.dropped
    assert (condition.owner.name, value_) == ("arith.cmpi", where)
    assert found.value.owner.name == "tensor.extract"


def test_what_a_sum_of_segments_saves():
    """A table of 5003 x 1021 f32 stays in the L2 cache: 3 bytes an addition. Neither way reads its start; sums write it and read it once."""
    points, table = 70_001, 5003 * 1021 * 4
    found = RowScatter.of(scatter_of(additions(points, 5003, 1021)))
    atomics = table + points * 1021 * 3
    assert found.saved == atomics - table - (SORT + SORTED * points)


def test_few_points_are_ordered_without_a_sort():
    points, table = 1 << 16, 5003 * 1021 * 4
    found = RowScatter.of(scatter_of(additions(points, 5003, 1021)))
    assert found.saved == points * 1021 * 3 - MERGE - points * points // PAIRS
    assert (
        RowScatter.of(scatter_of(additions(points, 5003, 2099))).saved
        == points * 2099 * 7 - MERGE - points * points // PAIRS
    )
    assert table < 40 << 20 < 5003 * 2099 * 4


def test_few_rows_are_contended():
    """7 rows of 17 f32 are 476 bytes: four lines."""
    found = RowScatter.of(scatter_of(additions(101, 7, 17)))
    assert found.saved_by_gathering == 101 * 17 * (CONTENDED // 4 - 2 * 7)
