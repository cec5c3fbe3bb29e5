"""Loops inside loops, several domains in one launch, and rows read at another index than their own."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.interpreter import Memory, run_kernel

from tests.lowering.triton.check import edit, lowered, program

# Two independent domains, the second with a reduction at each of its points.
DOMAINS = """
func.func private @k(%x: memref<300xf32>, %y: memref<70x5xf32>, %a: memref<300xf32>, %b: memref<70xf32>) {
  "bascule.kernel"() ({
    %two = arith.constant 2.0 : f32
    "bascule.foreach"() ({
    ^bb0(%i: index):
      %e = memref.load %x[%i] : memref<300xf32>
      %f = arith.mulf %e, %two : f32
      "bascule.store"(%f, %a, %i) : (f32, memref<300xf32>, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (300)>} : () -> ()
    "bascule.foreach"() ({
    ^bb0(%i: index):
      %s = "bascule.reduce"() ({
      ^bb0(%k: index):
        %e = memref.load %y[%i, %k] : memref<70x5xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
      "bascule.store"(%s, %b, %i) : (f32, memref<70xf32>, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (70)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return
}
"""

# A row kept in a compute, read backwards, and windows of it summed at each point of a foreach.
ROWS = """
func.func private @k(%x: memref<6x40xf32>, %a: memref<6x40xf32>, %b: memref<6x38xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %row = "bascule.compute"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<6x40xf32>
      %f = arith.mulf %e, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {ranges = affine_map<() -> (40)>} : () -> tensor<40xf32>
    "bascule.foreach"() ({
    ^bb0(%k: index):
      %back = affine.apply affine_map<(d0) -> (39 - d0)>(%k)
      %e = tensor.extract %row[%back] : tensor<40xf32>
      %f = tensor.extract %row[%k] : tensor<40xf32>
      %g = arith.subf %e, %f : f32
      "bascule.store"(%g, %a, %i, %k) : (f32, memref<6x40xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (40)>} : () -> ()
    "bascule.foreach"() ({
    ^bb0(%k: index):
      %s = "bascule.reduce"() ({
      ^bb0(%w: index):
        %at = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%k, %w)
        %e = tensor.extract %row[%at] : tensor<40xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (3)>} : () -> f32
      "bascule.store"(%s, %b, %i, %k) : (f32, memref<6x38xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (38)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (6)>} : () -> ()
  return
}
"""


def kernel(text: str, **schedule: int):
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        ScheduleKernels(target="cuda").run(module)
        edit(module, **schedule)
        return lowered(module)["k"]


def test_domains():
    made = kernel(DOMAINS)
    x, y, a, b = torch.randn(300), torch.randn(70, 5), torch.empty(300), torch.empty(70)
    run_kernel(made, [Memory(x), Memory(y), Memory(a, written=False), Memory(b, written=False)])
    torch.testing.assert_close((a, b), (x * 2, y.sum(1)))
    assert compile_kernel(made, 90).asm["cubin"]


@pytest.mark.parametrize("blocks", [(4, 64), (1, 64), (2, 8), (1, 1)])
def test_rows(blocks):
    made = kernel(ROWS, tile=blocks[0], step=blocks[1])
    x, a, b = torch.randn(6, 40), torch.empty(6, 40), torch.empty(6, 38)
    run_kernel(made, [Memory(x), Memory(a, written=False), Memory(b, written=False)])
    torch.testing.assert_close((a, b), ((x * x).flip(1) - x * x, (x * x).unfold(1, 3, 1).sum(2)))
    assert compile_kernel(made, 90).asm["cubin"]


# Row work on a chunk of rows, then the sums of its columns: the lanes are in loops inside of loops.
CHUNKS = """
#row = affine_map<(d0, d1) -> (d0 * 4 + d1)>
func.func private @k(%x: memref<24x40xf32>, %y: memref<24x40xf32>, %p: memref<6x40xf32>) {
  "bascule.kernel"() ({
  ^bb0(%c: index):
    "bascule.foreach"() ({
    ^bb0(%r: index):
      %i = affine.apply #row(%c, %r)
      %m = "bascule.reduce"() ({
      ^bb0(%k: index):
        %e = memref.load %x[%i, %k] : memref<24x40xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "max", ranges = affine_map<() -> (40)>} : () -> f32
      "bascule.foreach"() ({
      ^bb0(%j: index):
        %e = memref.load %x[%i, %j] : memref<24x40xf32>
        %f = arith.subf %e, %m : f32
        "bascule.store"(%f, %y, %i, %j) : (f32, memref<24x40xf32>, index, index) -> ()
        "bascule.yield"() : () -> ()
      }) {ranges = affine_map<() -> (40)>} : () -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4)>} : () -> ()
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %s = "bascule.reduce"() ({
      ^bb0(%r: index):
        %i = affine.apply #row(%c, %r)
        %e = memref.load %x[%i, %j] : memref<24x40xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (4)>} : () -> f32
      "bascule.store"(%s, %p, %c, %j) : (f32, memref<6x40xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (40)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (6)>} : () -> ()
  return
}
"""


@pytest.mark.parametrize("schedule", [{}, {"step": 16}, {"tile": 2}], ids=["default", "walked", "two-chunks"])
def test_chunks_of_rows(schedule):
    made = kernel(CHUNKS, **schedule)
    x, y, p = torch.randn(24, 40), torch.empty(24, 40), torch.empty(6, 40)
    run_kernel(made, [Memory(x), Memory(y, written=False), Memory(p, written=False)])
    torch.testing.assert_close((y, p), (x - x.amax(1, keepdim=True), x.reshape(6, 4, 40).sum(1)))
    assert compile_kernel(made, 90).asm["cubin"]
    if not schedule:
        assert made.ttir.count("scf.for") == 1
        assert made.ttir.count('"tt.load"') == 1


@pytest.mark.parametrize("count", [2, 5])
def test_equal_domains_share_their_code(count):
    part = """
    "bascule.foreach"() ({{
    ^bb0(%i: index):
      %e = memref.load %x{n}[%i] : memref<300xf32>
      %s = memref.load %scale[] : memref<f32>
      %f = arith.mulf %e, %s : f32
      "bascule.store"(%f, %y{n}, %i) : (f32, memref<300xf32>, index) -> ()
      "bascule.yield"() : () -> ()
    }}) {{ranges = affine_map<() -> (300)>}} : () -> ()"""
    arguments = ", ".join(f"%x{n}: memref<300xf32>, %y{n}: memref<300xf32>" for n in range(count))
    made = kernel(
        f"func.func private @k(%scale: memref<f32>, {arguments}) {{\n"
        + '"bascule.kernel"() ({'
        + "".join(part.format(n=n) for n in range(count))
        + '\n"bascule.yield"() : () -> ()\n}) {ranges = affine_map<() -> ()>} : () -> ()\nreturn\n}'
    )
    assert made.ttir.count("arith.mulf") == 1
    xs, ys, scale = torch.randn(count, 300), torch.empty(count, 300), torch.tensor(3.0)
    buffers = [Memory(t, written=written) for x, y in zip(xs, ys) for t, written in ((x, True), (y, False))]
    run_kernel(made, [Memory(scale), *buffers])
    torch.testing.assert_close(ys, xs * 3)
    assert "ld.global.v4.b32" in compile_kernel(made, 90).asm["ptx"]


def test_domains_that_differ_do_not_share_code():
    made = kernel(DOMAINS.replace("arith.mulf", "arith.addf"))
    assert made.ttir.count('"tt.load"') == 2


def test_what_is_read_behind_a_sum_is_asked_for_before():
    """A scale of the row, at a place that is known before the sum is."""

    def f(x, s):
        return x.sum(-1) * s

    (kernel,) = lowered(program(f, torch.randn(64, 1000), torch.randn(64))).values()
    places = [kernel.ttir.index(op) for op in ("tt.load", "tt.reduce", "tt.store")]
    assert places == sorted(places) and kernel.ttir.rindex("tt.load") < places[1]
