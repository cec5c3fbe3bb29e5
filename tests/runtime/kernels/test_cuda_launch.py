"""The native launcher on a real device, against PyTorch."""

import subprocess
import sys

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from bascule.lowering.triton import TritonKernel, compile_kernels
from bascule.lowering.triton.compile.kernel_cache import KernelCache
from bascule.runtime.kernels import cuda_driver

AXPY = """
module {
  tt.func public @axpy(%n: i32, %x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %a: i64) {
    %p = tt.get_program_id x : i32
    %c = arith.constant 128 : i32
    %b = arith.muli %p, %c : i32
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %s = tt.splat %b : i32 -> tensor<128xi32>
    %i = arith.addi %r, %s : tensor<128xi32>
    %ns = tt.splat %n : i32 -> tensor<128xi32>
    %m = arith.cmpi slt, %i, %ns : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %yp = tt.addptr %ys, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %f = arith.sitofp %a : i64 to f32
    %fs = tt.splat %f : f32 -> tensor<128xf32>
    %xv = tt.load %xp, %m : tensor<128x!tt.ptr<f32>>
    %yv = tt.load %yp, %m : tensor<128x!tt.ptr<f32>>
    %t = arith.mulf %xv, %fs : tensor<128xf32>
    %u = arith.addf %t, %yv : tensor<128xf32>
    tt.store %yp, %u, %m : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""

# Its tile goes through 64 KiB of shared memory, more than a kernel has without asking.
TRANSPOSE = """
module {
  tt.func public @transpose(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %c = arith.constant dense<128> : tensor<128x1xi32>
    %r = tt.expand_dims %i {axis = 1 : i32} : tensor<128xi32> -> tensor<128x1xi32>
    %q = tt.expand_dims %i {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
    %rc = arith.muli %r, %c : tensor<128x1xi32>
    %rb = tt.broadcast %rc : tensor<128x1xi32> -> tensor<128x128xi32>
    %qb = tt.broadcast %q : tensor<1x128xi32> -> tensor<128x128xi32>
    %at = arith.addi %rb, %qb : tensor<128x128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x128x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x128x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %at : tensor<128x128x!tt.ptr<f32>>, tensor<128x128xi32>
    %yp = tt.addptr %ys, %at : tensor<128x128x!tt.ptr<f32>>, tensor<128x128xi32>
    %v = tt.load %xp : tensor<128x128x!tt.ptr<f32>>
    %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<128x128xf32> -> tensor<128x128xf32>
    tt.store %yp, %t : tensor<128x128x!tt.ptr<f32>>
    tt.return
  }
}
"""


def load(name, ttir):
    kernel = TritonKernel(name, ttir, None, 4, 2, "model.py:5:0")
    (code,) = compile_kernels([kernel], cuda_driver.capability(0), KernelCache(None)).values()
    image = cuda_driver.CubinImage(code.cubin, code.entry, code.warps, code.shared, code.location)
    return cuda_driver.load_kernels({name: image}, 0)[name], code


@pytest.fixture(scope="module")
def axpy():
    return load("axpy", AXPY)[0]


ARGUMENTS = [("slot", 0, 0, "i32"), ("slot", 1, 0, "ptr"), ("slot", 2, 0, "ptr"), ("slot", 3, 0, "i64")]


def test_kernels_in_order(axpy):
    """Each reads what the one before it wrote; the third has an offset into both buffers."""
    x, y = torch.randn(2, 1000, device="cuda").unbind()
    shifted = [("slot", 4, 0, "i32"), ("slot", 1, 800, "ptr"), ("slot", 2, 800, "ptr"), ("slot", 3, -5, "i64")]
    plan = cuda_driver.Plan(
        [(axpy, 8, ARGUMENTS), (axpy, ("slot", 5), ARGUMENTS), (axpy, 7, shifted), (axpy, 0, ARGUMENTS)]
    )
    want = y.double() + 2 * 3 * x.double()
    want[200:] += (3 - 5) * x[200:].double()
    plan(cuda_driver.current_stream(0), 1000, x.data_ptr(), y.data_ptr(), 3, 800, 8)
    torch.testing.assert_close(y.double(), want, rtol=1e-6, atol=1e-5)


def test_the_stream_that_is_given(axpy):
    stream = torch.cuda.Stream()
    x, y = torch.randn(2, 1000, device="cuda").unbind()
    want = y + 3 * x
    plan = cuda_driver.Plan([(axpy, 8, ARGUMENTS)])
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        plan(cuda_driver.current_stream(0), 1000, x.data_ptr(), y.data_ptr(), 3)
    assert not stream.query()  # it waits there
    stream.synchronize()
    torch.testing.assert_close(y, want)


def test_shared_memory_over_48_kib():
    function, code = load("transpose", TRANSPOSE)
    assert code.shared > 48 * 1024
    x, y = torch.randn(2, 128, 128, device="cuda").unbind()
    cuda_driver.Plan([(function, 1, [("slot", 0, 0, "ptr"), ("slot", 1, 0, "ptr")])])(
        cuda_driver.current_stream(0), x.data_ptr(), y.data_ptr()
    )
    assert torch.equal(y, x.t())
    assert function.registers > 0


def test_a_graph_captures_a_plan(axpy):
    x, y = torch.randn(2, 1000, device="cuda").unbind()
    want = y + 2 * 3 * x
    plan = cuda_driver.Plan([(axpy, 8, ARGUMENTS)])
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        plan(cuda_driver.current_stream(0), 1000, x.data_ptr(), y.data_ptr(), 3)
    graph.replay()
    graph.replay()
    torch.testing.assert_close(y, want)


def test_kernels_load_and_unload_while_a_graph_is_captured(axpy):
    x, y = torch.randn(2, 1000, device="cuda").unbind()
    plan, graph = cuda_driver.Plan([(axpy, 8, ARGUMENTS)]), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        other, _ = load("transpose", TRANSPOSE)
        plan(cuda_driver.current_stream(0), 1000, x.data_ptr(), y.data_ptr(), 3)
        del other
    want = y + 3 * x
    graph.replay()
    torch.testing.assert_close(y, want)


def test_parameters_that_the_kernel_does_not_take(axpy):
    with pytest.raises(
        cuda_driver.DriverError, match=r"kernel axpy \(model\.py:5:0\) takes parameters of 4 8 8 8 8 8 bytes"
    ):
        cuda_driver.Plan([(axpy, 8, ARGUMENTS[:3])])
    with pytest.raises(cuda_driver.DriverError, match="takes parameters of"):
        cuda_driver.Plan([(axpy, 8, [*ARGUMENTS[:3], ("slot", 3, 0, "i32")])])


def test_a_kernel_for_another_architecture():
    capability = cuda_driver.capability(0)
    other = 80 if capability >= 90 else 90
    code = compile_kernels([TritonKernel("axpy", AXPY, None, 4, 2, "model.py:5:0")], other, KernelCache(None))["axpy"]
    with pytest.raises(cuda_driver.DriverError, match="another architecture"):
        cuda_driver.Cubin(code.cubin, 0)


def test_a_kernel_that_fails_is_reported_with_the_next_launch():
    """In a process of its own: the device is lost to it."""
    code = """
import torch
from test_cuda_launch import ARGUMENTS, AXPY, cuda, load
plan = cuda.Plan([(load("axpy", AXPY)[0], 8, ARGUMENTS)])
torch.zeros(1, device="cuda")
stream = cuda.current_stream(0)
plan(stream, 1000, 16, 16, 3)
try:
    torch.cuda.synchronize()
except RuntimeError:
    pass
try:
    plan(stream, 1000, 16, 16, 3)
except cuda.DriverError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=__file__.rpartition("/")[0]
    )
    assert "kernel axpy (model.py:5:0) does not start: CUDA_ERROR_ILLEGAL_ADDRESS (700)" in result.stdout, result
    assert "CUDA_LAUNCH_BLOCKING=1" in result.stdout
