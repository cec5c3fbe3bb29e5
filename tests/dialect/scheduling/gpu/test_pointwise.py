"""Straight-line code on a GPU: flat, transposed, in two axes, and by elements that are read one after the other."""

import pytest
from bascule.dialect.scheduling.gpu.pointwise import flat, pointwise

from tests.dialect.small_kernels import copied, domain_of, kernel, load, mlir, store

__all__ = ["mlir"]


def vector(size: str, element: str = "f32"):
    x = f"memref<{'?' if size == 's0' else size}x{element}>"
    body = (load("%a", "%x", "%i", x), store("%a", "%y", "%i", x, element))
    return kernel(f"%s0: index, %x: {x}, %y: {x}", "%i", size, *body)


@pytest.mark.parametrize(
    "size, element, tile, warps",
    [
        ("1009", "f32", 256, 1),  # 8 elements a thread, of a warp: multiprocessors are idle anyway
        ("300007", "f32", 1024, 4),
        ("300007", "f64", 1024, 4),
        ("600011", "i8", 2048, 4),  # 16 bytes are 16 elements
        ("31", "f32", 32, 1),
        ("0", "f32", 32, 1),
        ("s0", "f32", 1024, 4),  # counts as large
    ],
)
def test_flat_programs(size, element, tile, warps):
    plan = pointwise(domain_of(vector(size, element)))
    assert (plan.kind, plan.order, plan.axes, plan.tile, plan.warps) == ("pointwise", [0], [1], [tile], warps)


def test_one_point_has_no_axis():
    x = "memref<f32>"
    domain = domain_of(kernel(f"%x: {x}, %y: {x}", "", "", load("%a", "%x", "", x), store("%a", "%y", "", x)))
    plan = pointwise(domain)
    assert (plan.axes, plan.tile, plan.warps) == ([], [], 1)


def test_elements_of_a_thread_can_be_given():
    plan = flat(domain_of(vector("300007")), "pointwise", [0], threads=32, each=2)
    assert (plan.tile, plan.warps) == ([64], 1)


def test_a_transpose_has_square_tiles():
    plan = pointwise(domain_of(copied(257, 129, transposed=True)))
    assert (plan.kind, plan.axes, plan.tile, plan.warps) == ("transposed", [1, 1], [64, 64], 8)
    narrow = pointwise(domain_of(copied(1031, 5, transposed=True)))
    assert (narrow.kind, narrow.tile) == ("transposed", [512, 8])


def test_few_neighbours_are_no_axis_of_a_transpose():
    assert pointwise(domain_of(copied(3, 1031, transposed=True))).kind == "pointwise"
    assert pointwise(domain_of(copied(4, 1031, transposed=True))).kind == "transposed"


def test_a_bias_is_read_once_for_several_rows():
    """y[i, j] = x[i, j] + b[j]: two axes where there are many points, one where not."""

    def added(rows: int):
        x, b = f"memref<{rows}x1021xf32>", "memref<1021xf32>"
        body = (
            load("%a", "%x", "%i, %j", x),
            load("%c", "%b", "%j", b),
            "%d = arith.addf %a, %c : f32",
            store("%d", "%y", "%i, %j", x),
        )
        return kernel(f"%x: {x}, %b: {b}, %y: {x}", "%i, %j", f"{rows}, 1021", *body)

    wide = pointwise(domain_of(added(1009)))
    assert (wide.axes, len(wide.tile)) == ([1, 1], 2)
    assert wide.tile[1] == 1024
    assert pointwise(domain_of(added(101))).axes == [2]
