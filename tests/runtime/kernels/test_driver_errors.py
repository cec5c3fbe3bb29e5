"""Failures of the CUDA driver are told with the kernel, the line and what to do; by a fake driver."""

import pytest
from bascule.runtime.kernels import cuda_driver

POINTER = ("slot", 0, 0, "ptr")


def test_a_launch_that_fails_names_kernel_line_and_reason(driver):
    functions = [driver.function(f"k{i}", (8,), location=f"model.py:{i}") for i in range(3)]
    plan = cuda_driver.Plan([(function, 1, [POINTER]) for function in functions])
    driver.fail("cuLaunchKernel", 700, after=1)
    with pytest.raises(cuda_driver.DriverError) as caught:
        plan(0, 8)
    assert str(caught.value).startswith(
        "kernel k1 (model.py:1) does not start: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered. "
    )
    assert "CUDA_LAUNCH_BLOCKING=1" in str(caught.value)
    assert [line.split()[0] for line in driver.lines()] == ["k0"]  # nothing after the one that failed
    assert driver.balance() == 0
    driver.reset()
    plan(0, 8)  # the plan can be used again
    assert driver.launches() == 3


def test_an_error_that_the_driver_does_not_name(driver):
    plan = cuda_driver.Plan([(driver.function("f", (8,)), 1, [POINTER])])
    driver.fail("cuLaunchKernel", 987)
    with pytest.raises(cuda_driver.DriverError, match=r"kernel f \(model.py:12\) does not start: error 987$"):
        plan(0, 8)


def test_out_of_memory_while_loading(driver):
    driver.fail("cuModuleLoadData", 2)
    with pytest.raises(
        cuda_driver.DriverError,
        match=r"loaded on cuda:0: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory\. .*free tensors",
    ):
        driver.function("f", (8,))


def test_a_cubin_for_another_architecture(driver):
    driver.fail("cuModuleLoadData", 209)
    with pytest.raises(cuda_driver.DriverError, match=r"CUDA_ERROR_NO_BINARY_FOR_GPU.*another architecture"):
        driver.function("f", (8,))


def test_a_kernel_that_is_not_in_its_cubin(driver):
    cubin = cuda_driver.Cubin(driver.image(here=(8,)), 0)
    with pytest.raises(
        cuda_driver.DriverError, match=r"kernel there \(model.py:3\) is not in its cubin: CUDA_ERROR_NOT_FOUND"
    ):
        cubin.function("there", 4, 0, "model.py:3")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no elf".ljust(200)])
def test_what_is_no_cubin(driver, data):
    with pytest.raises(cuda_driver.DriverError, match=f"is no cubin: {len(data)} bytes"):
        cuda_driver.Cubin(data, 0)


def test_a_device_that_is_not_there(driver):
    with pytest.raises(cuda_driver.DriverError, match=r"there is no device cuda:5: CUDA_ERROR_INVALID_DEVICE"):
        driver.function("f", (8,), device=5)


def test_no_driver(tmp_path):
    with pytest.raises(cuda_driver.DriverError, match=r"no CUDA driver: .*nowhere\.so.*compile for the CPU"):
        cuda_driver.open_driver(str(tmp_path / "nowhere.so"))


def test_a_driver_that_is_too_old(driver):
    driver.version(11040)
    with pytest.raises(
        cuda_driver.DriverError, match=r"too old: it supports CUDA 11\.4, and CUDA 12\.0 or newer is needed"
    ):
        cuda_driver.open_driver(driver.path)


def test_a_driver_that_does_not_start(driver):
    driver.fail("cuInit", 999)
    with pytest.raises(cuda_driver.DriverError, match="does not start: error 999"):
        cuda_driver.open_driver(driver.path)


def test_no_gpu(driver):
    driver.devices(0)
    with pytest.raises(
        cuda_driver.DriverError, match=r"there is no device: CUDA_ERROR_NO_DEVICE.*CUDA_VISIBLE_DEVICES"
    ):
        cuda_driver.open_driver(driver.path)


def test_a_library_that_is_no_driver():
    with pytest.raises(cuda_driver.DriverError):
        cuda_driver.open_driver("libm.so.6")
