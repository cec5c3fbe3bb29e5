"""Host time of a launch: a plan of 100 small kernels, and what others take for as many.

    python -m benchmarks.launch_overhead [--kernels N] [--seconds S] [--json FILE]

On a CUDA device the kernels are real ones, and Triton's launcher and Inductor stand beside the plan; the device is idle before each run,
and its queue holds all of them. A plan is issued as one graph of the driver's, whose parameters are
set first where the slots are not those of the call before; a plan of one kernel is launched by itself. Without a device the
driver is the tests' fake, which does nothing (and walks through its graphs): what is left is the launcher's own time.
"""

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import torch
from bascule.runtime.kernels import cuda_driver

from .measure import print_table, save

FAKE = Path(__file__).parents[1] / "tests/runtime/kernels/fake_cuda.cpp"
SIZE = 1024  # elements of each tensor
TTIR = f"""
module {{
  tt.func public @axpy(%symbol: i32, %x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %y: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}) {{
    %i = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : tensor<{SIZE}xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<{SIZE}x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<{SIZE}x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %i : tensor<{SIZE}x!tt.ptr<f32>>, tensor<{SIZE}xi32>
    %yp = tt.addptr %ys, %i : tensor<{SIZE}x!tt.ptr<f32>>, tensor<{SIZE}xi32>
    %scale = arith.sitofp %symbol : i32 to f32
    %scales = tt.splat %scale : f32 -> tensor<{SIZE}xf32>
    %xv = tt.load %xp : tensor<{SIZE}x!tt.ptr<f32>>
    %yv = tt.load %yp : tensor<{SIZE}x!tt.ptr<f32>>
    %p = arith.mulf %xv, %scales : tensor<{SIZE}xf32>
    %s = arith.addf %p, %yv : tensor<{SIZE}xf32>
    tt.store %yp, %s : tensor<{SIZE}x!tt.ptr<f32>>
    tt.return
  }}
}}
"""


def host_time(call: Callable[[], object], seconds: float) -> float:
    """Median seconds until `call` returns, the device idle before each."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(3):
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        wait()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def plan_of(function: cuda_driver.Function, kernels: int) -> cuda_driver.Plan:
    """y_k += symbol * x_k for every k, the tensors at offsets into two buffers: one slot a symbol, one a buffer."""
    bytes_each = 4 * SIZE
    return cuda_driver.Plan(
        (
            function,
            1,
            [("slot", 0, 0, "i32"), ("slot", 1, k * bytes_each, "ptr"), ("slot", 2, k * bytes_each, "ptr")],
        )
        for k in range(kernels)
    )


def measure_fake(kernels: int, seconds: float) -> dict[str, float]:
    """Seconds a kernel with a driver that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/libcuda.so"
        subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-o", library, str(FAKE)], check=True)
        cuda_driver.open_driver(library)
        fake = ctypes.CDLL(library)
        fake.fake_recording(0)
        fake.fake_use_context(0)  # as PyTorch has it
    image = b"\x7fELF".ljust(64, b"\0") + b"axpy:4,8,8,8,8\0"
    function = cuda_driver.load_kernels({"axpy": cuda_driver.CubinImage(image, "axpy", 4, 0, "here")}, 0)["axpy"]
    return measure_plans(function, kernels, seconds, 3, 1 << 40, 1 << 41)


def measure_plans(function: cuda_driver.Function, kernels: int, seconds: float, *slots: int) -> dict[str, float]:
    """`slots`: the symbol, which is another at each call but in the second row, and two addresses."""
    many, again, one = plan_of(function, kernels), plan_of(function, kernels), plan_of(function, 1)
    stream = cuda_driver.current_stream(0) if torch.cuda.is_available() else 0
    _, *addresses = slots
    numbers = count()

    def one_by_one() -> None:
        for _ in range(kernels):
            one(stream, *slots)

    return {
        f"plan of {kernels}": host_time(lambda: many(stream, next(numbers), *addresses), seconds) / kernels,
        f"plan of {kernels}, slots as before": host_time(lambda: again(stream, *slots), seconds) / kernels,
        f"{kernels} plans of one": host_time(one_by_one, seconds) / kernels,
    }


def measure_cuda(kernels: int, seconds: float) -> dict[str, float]:
    import triton

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "axpy.ttir"
        path.write_text(TTIR)
        compiled = triton.compile(str(path), options={"num_warps": 4})
    image = cuda_driver.CubinImage(compiled.asm["cubin"], "axpy", 4, compiled.metadata.shared, "here")
    function = cuda_driver.load_kernels({"axpy": image}, 0)["axpy"]
    x, y = torch.randn(2, kernels * SIZE, device="cuda").unbind()
    want = y + 3 * x
    plan_of(function, kernels)(cuda_driver.current_stream(0), 3, x.data_ptr(), y.data_ptr())
    torch.testing.assert_close(y, want)
    results = measure_plans(function, kernels, seconds, 3, x.data_ptr(), y.data_ptr())

    parts = list(zip(x.split(SIZE), y.split(SIZE)))

    def with_triton() -> None:
        for a, b in parts:
            compiled[(1, 1, 1)](3, a, b)

    results["Triton's launcher"] = host_time(with_triton, seconds) / kernels

    # Sizes that differ are kernels that Inductor does not merge; each makes a tensor.
    inputs = [torch.randn(SIZE + 8 * k, device="cuda") for k in range(kernels)]
    results["Inductor, a call of as many"] = host_time(inductor(inputs), seconds) / kernels
    return results


def inductor(inputs: list[torch.Tensor]) -> Callable[[], object]:
    function = torch.compile(lambda values: [value * 3 + 1 for value in values], dynamic=False)
    return lambda: function(inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json")
    args = parser.parse_args()
    measure = measure_cuda if torch.cuda.is_available() else measure_fake
    rows = [{"launcher": name, "ns": 1e9 * seconds} for name, seconds in measure(args.kernels, args.seconds).items()]
    driver = torch.cuda.get_device_name() if torch.cuda.is_available() else "a driver that does nothing"
    print_table([f"launcher ({driver})", "ns a kernel"], [[row["launcher"], f"{row['ns']:.0f}"] for row in rows])
    save("launch_overhead", rows, args.json)


if __name__ == "__main__":
    main()
