"""The native launcher, against a fake driver that records what it is asked to launch."""

import contextlib
import ctypes
import gc
import os
import resource
import subprocess
import sys
import threading

import pytest
from bascule.runtime.kernels import cuda_driver
from bascule.runtime.kernels.cuda_kernels import PlannedKernels
from bascule.runtime.kernels.reference_kernels import PartlyCompiledPlans

POINTER = ("slot", 0, 0, "ptr")


def parameters(line):
    return [int(word, 16) for word in line.partition(" : ")[2].split()]


def test_parameters_are_laid_out_as_the_kernel_takes_them(driver):
    """Addresses with offsets, narrow and wide integers, negative ones; Triton's own two pointers come last and are null."""
    function = driver.function("mixed", (8, 4, 8, 8, 4))
    plan = cuda_driver.Plan(
        [
            (
                function,
                7,
                [
                    ("slot", 0, 0, "ptr"),
                    ("slot", 2, 0, "i32"),
                    ("slot", 0, 4096, "ptr"),
                    ("slot", 3, 1, "i64"),
                    ("slot", 3, 0, "i32"),
                ],
            )
        ]
    )
    plan(0, 0x7F00_0000_1000, 99, 12, -5)
    (line,) = driver.lines()
    assert line.startswith("mixed grid 7 block 128 shared 0 stream 0 context 0 :")
    assert parameters(line) == [0x7F00_0000_1000, 12, 0x7F00_0000_2000, 2**64 - 4, 2**32 - 5, 0, 0]


def test_every_call_reads_its_own_slots(driver):
    plan = cuda_driver.Plan([(driver.function("again", (8, 4)), ("slot", 1), [POINTER, ("slot", 1, 0, "i32")])])
    for k in range(1, 4):
        plan(0, 4096 * k, k)
    assert [parameters(line)[:2] for line in driver.lines()] == [[4096, 1], [8192, 2], [12288, 3]]
    assert [line.split()[2] for line in driver.lines()] == ["1", "2", "3"]


def test_launches_go_to_the_stream_in_order(driver):
    functions = [driver.function(f"k{i}", (8,)) for i in range(5)]
    plan = cuda_driver.Plan([(functions[i], i + 1, [("slot", i % 2, i, "ptr")]) for i in (3, 0, 4, 1, 1)])
    plan(0xABC0, 100, 200)
    assert [line.split()[0] for line in driver.lines()] == ["k3", "k0", "k4", "k1", "k1"]
    assert {line.split("stream ")[1].split()[0] for line in driver.lines()} == {str(0xABC0)}
    assert [parameters(line)[0] for line in driver.lines()] == [203, 100, 104, 201, 201]
    assert len(plan) == 5


def test_kernels_that_wait_may_start_early(driver):
    """But not where they are recorded, nor in a plan's own graph, nor with a driver that cannot."""
    early, late = driver.function("early", (8,), early=True), driver.function("late", (8,))
    assert early.early and not late.early
    plan = cuda_driver.Plan([(function, 1, [POINTER]) for function in (late, early)])
    plan(0, 8)
    driver.capturing(1)
    plan(0, 8)
    driver.capturing(0)
    plan(0, 8)
    assert [line.endswith(" early") for line in driver.lines()] == [False, True, False, False, False, True]
    many = cuda_driver.Plan([(early, 1, [POINTER])] * 5)
    for _ in range(3):
        many(0, 8)
    assert [line.endswith(" early") for line in driver.lines()[6:]] == [True] * 10 + [False] * 5
    assert driver.graph_launches() == 1


def test_a_kernel_that_does_not_start_early_is_named(driver):
    plan = cuda_driver.Plan([(driver.function("early", (8,), early=True), 1, [POINTER])])
    driver.fail("cuLaunchKernel", 700)
    with pytest.raises(
        cuda_driver.DriverError, match=r"kernel early \(model.py:12\) does not start: .*illegal memory access"
    ):
        plan(0, 8)


def test_an_empty_grid_is_skipped(driver):
    function = driver.function("rows", (8,))
    plan = cuda_driver.Plan([(function, 0, [POINTER]), (function, ("slot", 1), [POINTER]), (function, 3, [POINTER])])
    plan(0, 8, 0)
    plan(0, 8, 2)
    assert [line.split()[2] for line in driver.lines()] == ["3", "2", "3"]


def test_an_empty_plan_does_nothing(driver):
    cuda_driver.Plan([])(0)
    assert driver.lines() == []


@pytest.mark.parametrize("grid", [-1, 2**31])
def test_a_grid_that_no_device_has_is_refused(driver, grid):
    plan = cuda_driver.Plan([(driver.function("rows", (8,)), ("slot", 1), [POINTER])])
    with pytest.raises(cuda_driver.DriverError, match=rf"kernel rows \(model.py:12\) is to run {grid} programs"):
        plan(0, 8, grid)


def test_a_number_over_32_bits_is_refused_where_the_kernel_takes_32(driver):
    plan = cuda_driver.Plan([(driver.function("rows", (8, 4)), 1, [POINTER, ("slot", 1, 0, "i32")])])
    plan(0, 8, 2**31 - 1)
    with pytest.raises(
        cuda_driver.DriverError, match=r"rows \(model.py:12\) takes parameter 1 in 32 bits.* 2147483648"
    ):
        plan(0, 8, 2**31)


def test_an_address_with_the_highest_bit_set(driver):
    cuda_driver.Plan([(driver.function("high", (8,)), 1, [("slot", 0, 16, "ptr")])])(0, 2**64 - 32)
    assert parameters(driver.lines()[0])[0] == 2**64 - 16


def test_shared_memory_over_48_kib_is_asked_for(driver):
    """The driver refuses a launch with more than the kernel's limit, so the limit has been raised."""
    function = driver.function("tiled", (8,), shared=100 * 1024, warps=8)
    cuda_driver.Plan([(function, 1, [POINTER])])(0, 8)
    assert "block 256 shared 102400" in driver.lines()[0]


def test_more_shared_memory_than_the_device_has_is_refused(driver):
    driver.shared_limit(101376)
    with pytest.raises(
        cuda_driver.DriverError,
        match=r"kernel tiled \(model.py:12\) needs 120016 bytes of shared.*the device has 101376",
    ):
        driver.function("tiled", (8,), shared=120000)


def test_more_warps_than_the_registers_allow_are_refused(driver):
    driver.threads_limit(256)
    with pytest.raises(
        cuda_driver.DriverError, match=r"kernel wide .* 16 warps, .* 32 registers a thread the device runs 1 to 8"
    ):
        driver.function("wide", (8,), warps=16)


def test_what_a_kernel_uses_can_be_read(driver):
    function = driver.function("f", (8,), warps=2, shared=10)
    assert (function.name, function.location, function.warps, function.shared) == ("f", "model.py:12", 2, 10)
    assert (function.registers, function.local_bytes) == (32, 40)


@pytest.mark.parametrize(
    "given",
    [
        [POINTER],
        [POINTER, ("slot", 1, 0, "i64"), POINTER],
        [POINTER, ("slot", 1, 0, "i32"), POINTER, POINTER],
        [],
        [POINTER] * 7,
    ],
)
def test_other_parameters_than_the_kernel_takes_are_refused(driver, given):
    """Which takes 8, 4 and 8 bytes, and then two pointers of Triton's."""
    function = driver.function("strict", (8, 4, 8))
    with pytest.raises(cuda_driver.DriverError, match=r"kernel strict \(model.py:12\) takes parameters of"):
        cuda_driver.Plan([(function, 1, given)])


@pytest.mark.parametrize(
    "launch, error, message",
    [
        (("f", 1, []), TypeError, "a launch is"),
        ((None, 1, []), TypeError, "a launch is"),
        ((1, 2), ValueError, "a launch is"),
        (("function", "2", []), ValueError, r"kernel f \(model.py:12\): its grid is no tuple"),
        (("function", ("slot", -1), []), ValueError, "its grid has a negative slot"),
        (("function", ("place", 1), []), ValueError, "its grid is neither an integer nor"),
        (("function", 1, [("slot", 0, 0)]), ValueError, "parameter 0 is not"),
        (("function", 1, [POINTER, ("slot", 0, 0, "f32")]), ValueError, 'parameter 1 is of kind "f32"'),
        (("function", 1, [("slot", "a", 0, "ptr")]), TypeError, "a launch is"),
    ],
)
def test_what_is_no_launch_is_refused(driver, launch, error, message):
    function = driver.function("f", (8, 8))
    launch = tuple(function if part == "function" else part for part in launch)
    with pytest.raises(error, match=message):
        cuda_driver.Plan([launch])


def test_a_call_needs_all_slots_and_only_integers(driver):
    plan = cuda_driver.Plan([(driver.function("f", (8, 8)), 1, [POINTER, ("slot", 2, 0, "ptr")])])
    with pytest.raises(TypeError, match="takes a stream and 3 slots, and got 3 arguments"):
        plan(0, 1, 2)
    with pytest.raises(TypeError, match="takes a stream and 3 slots, and got 0 arguments"):
        plan()
    with pytest.raises(TypeError):
        plan(0, 1, 2, "3")
    with pytest.raises(TypeError, match="no keyword"):
        plan(0, 1, 2, c=3)
    with pytest.raises(OverflowError):
        plan(0, 1, 2, 2**64)
    with pytest.raises(OverflowError):
        plan(0, 1, 2, -(2**63) - 1)
    assert driver.lines() == []
    plan(0, 1, 2, 3, 4)  # slots that no kernel reads


def test_many_slots(driver):
    """More than are kept on the stack."""
    count = 300
    plan = cuda_driver.Plan([(driver.function("f", (8,) * count), 1, [("slot", i, 0, "ptr") for i in range(count)])])
    plan(0, *range(count))
    assert parameters(driver.lines()[0]) == [*range(count), 0, 0]


# Contexts, threads, lifetimes.


def test_kernels_run_in_the_context_of_their_device(driver):
    plan = cuda_driver.Plan([(driver.function("f", (8,), device=1), 1, [POINTER])])
    driver.use_context(0)
    plan(0, 8)  # another device is current
    driver.use_context(1)
    plan(0, 8)
    assert [line.split("context ")[1].split()[0] for line in driver.lines()] == ["1", "1"]
    assert driver.balance() == 0


def test_a_plan_has_one_device(driver):
    kernels = [driver.function("f", (8,), device=device) for device in (0, 1)]
    with pytest.raises(cuda_driver.DriverError, match=r"kernel f \(model.py:12\) is on cuda:1"):
        cuda_driver.Plan([(function, 1, [POINTER]) for function in kernels])


def test_threads_share_a_plan(driver):
    """No launch has the parameters of another thread's call, though the cells are the plan's."""
    plan = cuda_driver.Plan([(driver.function("f", (8, 8, 8)), 1, [("slot", i, 0, "ptr") for i in range(3)])] * 4)
    errors = []

    def work(thread):
        try:
            for k in range(500):
                value = thread * 1000 + k
                plan(thread, value, value, value)
        except Exception as error:  # the assertion below shows it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    lines = driver.lines()
    assert len(lines) == 3 * 500 * 4
    for line in lines:
        values = parameters(line)[:3]
        assert values[0] == values[1] == values[2]
        assert int(line.split("stream ")[1].split()[0]) == values[0] // 1000


def test_cubins_are_unloaded_with_their_last_kernel(driver):
    gc.collect()  # those of tests before, which may be in circles
    before = driver.live_modules()
    images = {name: cuda_driver.CubinImage(driver.image(f=(8,)), "f", 4, 0, f"model.py:{name}") for name in ("a", "b")}
    functions = cuda_driver.load_kernels(images, 0)
    assert driver.live_modules() == before + 1  # equal machine code is loaded once
    assert functions["b"].location == "model.py:b"
    plan = cuda_driver.Plan([(functions["a"], 1, [POINTER])])
    del functions
    gc.collect()
    plan(0, 8)
    assert driver.live_modules() == before + 1
    del plan
    gc.collect()
    assert driver.live_modules() == before


def test_calls_leak_nothing(driver):
    driver.recording(0)
    function = driver.function("f", (8, 4))
    plan = cuda_driver.Plan([(function, ("slot", 1), [POINTER, ("slot", 1, 0, "i32")])] * 20)
    stream, address, count = 1 << 40, 1 << 41, 1 << 20  # no small integers, whose counts many share

    def calls(number):
        for _ in range(number):
            plan(stream, address, count)
            with contextlib.suppress(cuda_driver.DriverError):
                plan(stream, address, -count)

    calls(200)
    counts = [sys.getrefcount(thing) for thing in (plan, function, stream, address, count, None)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(10_000)
    assert [sys.getrefcount(thing) for thing in (plan, function, stream, address, count)] == counts[:-1]
    assert abs(sys.getrefcount(None) - counts[-1]) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 1024  # KiB


def test_plans_that_come_and_go_leak_nothing(driver):
    driver.recording(0)
    function = driver.function("f", (8, 4))
    launch = (function, ("slot", 1), [POINTER, ("slot", 1, 0, "i32")])

    def plans(number):
        for _ in range(number):
            cuda_driver.Plan([launch] * 20)(0, 8, 2)

    plans(200)
    count, memory = sys.getrefcount(function), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plans(10_000)
    assert sys.getrefcount(function) == count
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 1024


def test_a_forked_child_leaves_its_parents_modules_alone(driver):
    function = driver.function("f", (8,))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        before = driver.live_modules()
        del function
        gc.collect()
        os.write(write, b"kept" if driver.live_modules() == before else b"gone")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 4) == b"kept"


def test_the_interpreter_is_free_while_kernels_are_launched(driver):
    """A launch may wait for the device, and a host function on the device may wait for the interpreter."""
    waiting = ctypes.CFUNCTYPE(None)(lambda: None)  # takes the interpreter's lock
    driver.on_launch(waiting)
    try:
        cuda_driver.Plan([(driver.function("f", (8,)), 1, [POINTER])])(0, 8)
    finally:
        driver.on_launch(None)
    assert driver.launches() == 1


# Without CUDA.


def test_an_installation_without_the_launcher_says_how_to_get_it():
    code = "import sys; sys.modules['bascule.runtime._native'] = None\nimport bascule.runtime\nimport bascule.runtime.kernels.cuda_driver"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode != 0
    assert "installed without its native launcher" in result.stderr
    assert "BASCULE_NATIVE=ON" in result.stderr


def test_the_runtime_alone_opens_no_driver():
    code = "import bascule.runtime, sys; assert 'bascule.runtime._native' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_current_stream_without_cuda():
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this PyTorch has CUDA")
    with pytest.raises(cuda_driver.DriverError, match="built without CUDA"):
        cuda_driver.current_stream(0)


def test_a_kernel_that_needs_too_much_is_refused_alone(driver):
    """A fault of one kernel is a `KernelError`; a fault of the device concerns them all."""
    driver.shared_limit(1024)
    images = {
        name: cuda_driver.CubinImage(driver.image(**{name: (8,)}), name, 4, shared, "model.py:12")
        for name, shared in (("small", 0), ("large", 4096))
    }
    refused = {}
    functions = cuda_driver.load_kernels(images, 0, refused.__setitem__)
    assert list(functions) == ["small"] and list(refused) == ["large"]
    assert isinstance(refused["large"], cuda_driver.KernelError) and "shared memory" in str(refused["large"])
    with pytest.raises(cuda_driver.KernelError, match="kernel large"):
        cuda_driver.load_kernels(images, 0)
    driver.fail("cuModuleLoadData", 2)
    with pytest.raises(cuda_driver.DriverError) as caught:
        cuda_driver.load_kernels(images, 0, refused.__setitem__)
    assert not isinstance(caught.value, cuda_driver.KernelError)


KEPT = """
import ctypes, sys
from bascule.runtime.kernels import cuda_driver
cuda_driver.open_driver(sys.argv[1])
function = cuda_driver.Cubin(bytes.fromhex(sys.argv[2]), 0).function("kept", 4, 0, "model.py:12")
ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
"""


def test_kernels_kept_until_a_process_ends_are_not_reported(driver):
    """As Dynamo's cache keeps them, which the interpreter does not empty."""
    command = [sys.executable, "-c", KEPT, driver.path, driver.image(kept=(8,)).hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_functions_between_the_launches_of_a_run(driver):
    """A kernel that was not compiled is called in its place, with symbols and addresses."""
    images = {
        name: cuda_driver.CubinImage(driver.image(**{name: (8,)}), name, 4, 0, "model.py:12")
        for name in ("first", "last")
    }
    called = []

    def reference(symbols, addresses):
        called.append((symbols, addresses, [line.split()[0] for line in driver.lines()]))

    planner = PartlyCompiledPlans(PlannedKernels(images, 0), {"middle": reference})
    plan = planner.plan(
        [
            ("first", 1, [("slot", 1, 0, "ptr")]),
            ("middle", 1, [("slot", 0, 0, "i64"), ("slot", 2, 16, "ptr"), ("slot", 1, 0, "ptr")]),
            ("last", 1, [("slot", 2, 0, "ptr")]),
        ]
    )
    plan(0, 7, 4096, 8192)
    assert called == [([7], [8208, 4096], ["first"])]
    assert [line.split()[0] for line in driver.lines()] == ["first", "last"]
