"""Which of the schedules for a GPU a kernel has, and how wide its indices are."""

import pytest
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.planner import cuda_schedule, walked_loops

from tests.dialect.small_kernels import (
    column_sums,
    copied,
    foreach,
    indexing_of,
    kernel,
    load,
    mlir,
    parse,
    row_sums,
    scaled_rows,
    store,
)

__all__ = ["mlir"]


def config(op: ir.Operation) -> ir.DictAttr:
    return cuda_schedule(op, H200, indexing_of(op))


@pytest.mark.parametrize(
    "make, sizes, kind",
    [
        (copied, (7, 13), "pointwise"),
        (row_sums, (5, 129), "row"),
        (column_sums, (999, 257), "column"),
        (row_sums, (100_003, 1), "column"),
    ],
)
def test_kinds(make, sizes, kind):
    found = config(make(*sizes))
    assert (found["kind"].value, found["target"].value, found["capability"].value) == (kind, "cuda", 90)


def test_top_level_loops_of_a_kernel_without_ranges_are_parts():
    x, y = "memref<1009xf32>", "memref<300007xf32>"
    parts = [
        foreach("%i", size, load("%a", name, "%i", type_) + "\n" + store("%a", name, "%i", type_))
        for name, size, type_ in (("%x", "1009", x), ("%y", "300007", y))
    ]
    found = config(kernel(f"%x: {x}, %y: {y}", "", "", *parts))
    assert (found["kind"].value, found["warps"].value) == ("group", 4)
    assert [list(part["tile"]) for part in found["parts"]] == [[256], [1024]]


@pytest.mark.parametrize("rows, bits", [(40_009, 32), (50_021, 64)])
def test_the_width_of_indices(rows, bits):
    """50021 * 50021 elements are more than 2**31."""
    found = config(copied(rows, rows))
    assert found["index_bits"].value == bits
    assert "narrow" not in found


def test_a_dynamic_size_says_when_narrow_indices_do():
    text = """
func.func private @k(%s0: index, %x: tensor<?x7xf32> {bascule.shape = affine_map<()[s0] -> (s0, 7)>}) -> tensor<?x7xf32>
    attributes {bascule.shapes = [affine_map<()[s0] -> (s0, 7)>]} {
  %out = bufferization.alloc_tensor(%s0) : tensor<?x7xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<?x7xf32>
    "bascule.store"(%a, %out, %i, %j) : (f32, tensor<?x7xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 7)>} : () -> ()
  return %out : tensor<?x7xf32>
}"""
    found = config(kernel_op(functions(parse(text))[0]))
    assert found["index_bits"].value == 64
    assert str(found["narrow"]) == "affine_map<()[s0] -> (s0, s0 * 7)>"


def test_of_memory_of_a_dynamic_size_nothing_is_known():
    x = "memref<?x7xf32>"
    body = (load("%a", "%x", "%i, %j", x), store("%a", "%y", "%i, %j", x))
    found = config(kernel(f"%s0: index, %x: {x}, %y: {x}", "%i, %j", "s0, 7", *body))
    assert found["index_bits"].value == 64
    assert "narrow" not in found


def test_walked_loops():
    def walked(op: ir.Operation) -> int:
        return len(walked_loops(op, H200, indexing_of(op)))

    assert walked(row_sums(5, 129)) == 0
    assert walked(row_sums(1000, 100_003)) == 1
    assert walked(scaled_rows(1000, 20_011)) == 2
