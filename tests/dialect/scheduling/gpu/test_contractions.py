"""Contractions for tensor cores: the tiles of programs, on three cards."""

import pytest
from bascule.dialect.scheduling.gpu.contractions import contraction
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine
from bascule.dialect.scheduling.gpu.planner import cuda_schedule
from bascule.dialect.scheduling.tuning.neighbours import is_in_segments

from tests.dialect.small_kernels import (
    domain_of,
    indexing_of,
    kernel,
    load,
    mlir,
    product,
    reduce,
    row_sums,
    schedule,
    store,
)

__all__ = ["mlir"]

A100, L40, T4 = (
    CudaMachine(108, 80, 1 << 16, 40 << 20),
    CudaMachine(142, 89, 1 << 16, 96 << 20),
    CudaMachine(40, 75, 1 << 16, 4 << 20),
)


def linear(rows, summed, columns, element="bf16"):
    x, y = f"{rows}x{summed} : %m, %k", f"{columns}x{summed} : %n, %k"
    return product(x, y, f"{rows}x{columns} : %m, %n", "%m, %n", f"{rows}, {columns}", summed, element)


def two(rows, summed, columns, same):
    """A kernel of the product of two products, of the same rows or of others."""
    x, y, z = f"memref<{rows}x{summed}xbf16>", f"memref<{columns}x{summed}xbf16>", f"memref<{rows}x{columns}xf32>"
    sums = []
    for number, buffer in enumerate(("%x0", "%x0" if same else "%x1")):
        terms = [load(f"%a{number}", buffer, "%m, %k", x), load(f"%b{number}", f"%y{number}", "%n, %k", y)]
        terms += [f"%{name}w{number} = arith.extf %{name}{number} : bf16 to f32" for name in "ab"]
        terms.append(f"%c{number} = arith.mulf %aw{number}, %bw{number} : f32")
        sums.append(reduce(f"%s{number}", "%k", f"{summed}", "\n".join(terms), f"%c{number}"))
    end = ["%p = arith.mulf %s0, %s1 : f32", store("%p", "%z", "%m, %n", z)]
    return kernel(f"%x0: {x}, %x1: {x}, %y0: {y}, %y1: {y}, %z: {z}", "%m, %n", f"{rows}, {columns}", *sums, *end)


def stacked(rows, summed, columns, *places):
    """A kernel of the product of two products, of one matrix by those at `places` of a stack."""
    x, y, z = f"memref<{rows}x{summed}xbf16>", f"memref<2x{columns}x{summed}xbf16>", f"memref<{rows}x{columns}xf32>"
    parts = [f"%g{number} = arith.constant {place} : index" for number, place in enumerate(places)]
    for number in range(2):
        terms = [load(f"%a{number}", "%x", "%m, %k", x), load(f"%b{number}", "%y", f"%g{number}, %n, %k", y)]
        terms += [f"%{name}w{number} = arith.extf %{name}{number} : bf16 to f32" for name in "ab"]
        terms.append(f"%c{number} = arith.mulf %aw{number}, %bw{number} : f32")
        parts.append(reduce(f"%s{number}", "%k", f"{summed}", "\n".join(terms), f"%c{number}"))
    end = ["%p = arith.mulf %s0, %s1 : f32", store("%p", "%z", "%m, %n", z)]
    return kernel(f"%x: {x}, %y: {y}, %z: {z}", "%m, %n", f"{rows}, {columns}", *parts, *end)


def test_parts_of_one_matrix_lie_apart_in_shared_memory():
    """A step has rows of the matrix that both multiply, and columns of each other one: a part of a stack is another one."""
    apart, same = (contraction(domain_of(stacked(4096, 512, 4096, *at), A100)) for at in ((0, 1), (1, 1)))
    assert apart.tile == same.tile == [128, 128] and (apart.stages, same.stages) == (3, 4)


def shape(rows, summed, columns, machine=H200, element="bf16"):
    plan = contraction(domain_of(linear(rows, summed, columns, element), machine))
    return plan and (plan.tile, plan.loops[0].step, plan.warps, plan.stages)


@pytest.mark.parametrize(
    ("sizes", "machine", "wanted"),
    [
        ((4096, 4096, 4096), H200, ([128, 256], 64, 8, 4)),
        ((4096, 4096, 4096), A100, ([128, 256], 64, 8, 3)),
        ((4096, 4096, 4096), L40, ([128, 256], 64, 8, 2)),
        ((2048, 1024, 1024), H200, ([64, 128], 64, 4, 4)),  # half as many programs as there are multiprocessors else
        ((16384, 768, 30522), H200, ([128, 256], 64, 8, 4)),
        ((100, 64, 50), H200, ([64, 64], 64, 4, 1)),
        ((9, 40, 4096), H200, ([16, 64], 64, 4, 1)),
        ((9, 40, 65536), H200, ([16, 256], 64, 4, 1)),
        ((17, 16, 17), H200, ([32, 32], 16, 4, 1)),
    ],
)
def test_tiles(sizes, machine, wanted):
    assert shape(*sizes, machine) == wanted


def test_f32_has_smaller_tiles():
    assert shape(4096, 4096, 4096, element="f32") == ([64, 64], 16, 4, 4)


@pytest.mark.parametrize("sizes", [(8, 64, 4096), (4096, 64, 8), (64, 8, 64)], ids=["rows", "columns", "summed"])
def test_few_are_none(sizes):
    assert shape(*sizes) is None


def test_an_older_card_has_none():
    assert shape(4096, 4096, 4096, T4) is None


def test_other_kernels_have_none():
    assert contraction(domain_of(row_sums(400, 500))) is None


def test_rows_and_columns_are_those_of_the_result():
    exchanged = product("300x64 : %n, %k", "64x500 : %k, %m", "500x300 : %m, %n", "%m, %n", "500, 300", 64)
    plan = contraction(domain_of(exchanged))
    assert (plan.order, plan.axes) == ([0, 1], [1, 1])
    across = product("500x64 : %m, %k", "300x64 : %n, %k", "300x500 : %n, %m", "%m, %n", "500, 300", 64)
    plan = contraction(domain_of(across))
    assert (plan.order, plan.axes) == ([1, 0], [1, 1])  # memory runs along what is the first factor's


def test_a_batch_is_an_axis_of_its_own():
    sizes = "5x200x64 : %i, %m, %k", "5x64x300 : %i, %k, %n", "5x200x300 : %i, %m, %n"
    plan = contraction(domain_of(product(*sizes, "%i, %m, %n", "5, 200, 300", 64)))
    assert (plan.order, plan.axes, plan.tile[0], plan.group) == ([0, 1, 2], [1, 1, 1], 1, 8)


@pytest.mark.parametrize(
    ("sizes", "same", "wanted"),
    [
        ((8192, 4096, 16384), True, ([128, 128], 8, 3)),
        ((8192, 4096, 16384), False, ([128, 128], 8, 3)),
        ((2048, 1024, 1024), True, ([64, 128], 4, 4)),
        ((100, 64, 50), True, ([64, 64], 4, 1)),
    ],
)
def test_two_share_registers_and_what_both_read(sizes, same, wanted):
    """Rows are read once for both, where they are the same."""
    plan = contraction(domain_of(two(*sizes, same), H200))
    assert (plan.tile, plan.warps, plan.stages) == wanted
    assert {(loop.dot, loop.walk, loop.step) for loop in plan.loops} == {(True, 0, 64)}


def grouped(rows, summed, columns, groups):
    """A kernel of rows by the matrices of the segments that they are in."""
    x, w, z = (
        f"memref<{rows}x{summed}xbf16>",
        f"memref<{groups}x{summed}x{columns}xbf16>",
        f"memref<{rows}x{columns}xf32>",
    )
    ends = f"memref<{groups}xi32>"
    before = [load("%e", "%o", "%g", ends), "%i = arith.index_cast %e : i32 to index"]
    before += ["%b = arith.cmpi sle, %i, %m : index", "%u = arith.extui %b : i1 to i32"]
    number = [
        reduce("%count", "%g", f"{groups}", "\n".join(before), "%u", "i32"),
        f"%l = arith.constant {groups - 1} : index",
    ]
    number += ["%c = arith.index_cast %count : i32 to index", "%s = arith.minsi %c, %l : index"]
    terms = [load("%x0", "%x", "%m, %k", x), load("%w0", "%w", "%s, %k, %n", w)]
    terms += [f"%{name}1 = arith.extf %{name}0 : bf16 to f32" for name in "xw"] + ["%p = arith.mulf %x1, %w1 : f32"]
    total = reduce("%t", "%k", f"{summed}", "\n".join(terms), "%p")
    arguments = f"%x: {x}, %w: {w}, %o: {ends}, %z: {z}"
    return kernel(arguments, "%m, %n", f"{rows}, {columns}", *number, total, store("%t", "%z", "%m, %n", z))


@pytest.mark.parametrize(
    ("sizes", "machine", "tile", "described"),
    [
        ((8192, 2048, 5632, 8), H200, [128, 256], [0, 1]),
        ((8192, 2048, 5632, 8), A100, [128, 256], []),
        ((8192, 2048, 5632, 128), H200, [64, 256], [0, 1]),  # rows that a segment has on average
        ((8192, 2048, 5632, 1024), H200, [16, 256], [0, 1]),
        ((8192, 2044, 5632, 8), H200, [128, 256], [1]),
    ],
)
def test_a_tile_of_rows_is_in_a_segment(sizes, machine, tile, described):
    plan = contraction(domain_of(grouped(*sizes), machine))
    count, product_ = plan.loops
    assert (plan.tile, count.segments, product_.dot, product_.descriptors) == (tile, True, True, described)


def test_what_data_says_is_not_measured():
    """With other numbers than its own a kernel of rows in segments has other things to do."""
    for op, wanted in ((grouped(8192, 512, 512, 8), True), (linear(8192, 512, 512), False)):
        assert is_in_segments(schedule(op, cuda_schedule(op, H200, indexing_of(op)))) == wanted
