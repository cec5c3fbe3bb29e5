"""Runs that come again with the same slots are issued as graphs: what is launched, and what happens where that cannot be."""

import gc
import os

import pytest
from bascule.runtime import cuda

KERNELS = 5


def plan_of(driver, kernels=KERNELS):
    functions = [driver.function(f"k{i}", (8, 4)) for i in range(kernels)]
    return cuda.Plan(
        [(f, ("slot", 1), [("slot", 0, 16 * i, "ptr"), ("slot", 2, 0, "i32")]) for i, f in enumerate(functions)]
    )


def one_call(driver):
    """What the last call launched."""
    return driver.lines()[-KERNELS:]


def test_the_same_is_launched(driver):
    plan = plan_of(driver)
    plan(7, 4096, 3, -1)
    want = one_call(driver)
    assert [line.split()[0] for line in want] == [f"k{i}" for i in range(KERNELS)]
    for calls in range(2, 8):
        plan(7, 4096, 3, -1)
        assert one_call(driver) == want
        assert driver.launches() == calls * KERNELS and driver.graph_launches() == max(0, calls - 3)
    plan(8, 4096, 3, -1)  # the stream is no part of it
    assert one_call(driver) == [line.replace("stream 7", "stream 8") for line in want]
    assert driver.graph_launches() == 5


def test_other_slots_are_launched_anew(driver):
    plan = plan_of(driver)
    for call in range(40):
        plan(0, 4096 * (call // 8), 2 + call % 2, call // 8)
        (first, *_) = one_call(driver)
        assert f"grid {2 + call % 2} " in first and f": {4096 * (call // 8):x} {call // 8:x}" in first
    assert driver.graph_launches() == 5 * 2, "the fourth time with each"
    assert driver.live_graphs() == 2, "those that were not used for long are gone"


def test_slots_that_always_change_are_recorded_a_few_times_at_most(driver):
    plan = plan_of(driver)
    for k in range(30):
        for _ in range(4):
            plan(0, 4096 * k, 2, 1)
            assert f": {4096 * k:x} 1" in one_call(driver)[0]
    assert driver.graph_launches() == 16


def test_short_runs_are_not_recorded(driver):
    plan = plan_of(driver, 3)
    for _ in range(6):
        plan(0, 4096, 3, 5)
    assert driver.launches() == 18 and driver.graph_launches() == 0


def test_nothing_is_recorded_or_replayed_into_anothers_recording(driver):
    plan = plan_of(driver)
    driver.capturing(1)
    for _ in range(5):
        plan(0, 4096, 3, 5)
    assert driver.launches() == 5 * KERNELS and driver.graph_launches() == driver.live_graphs() == 0
    driver.capturing(0)
    for _ in range(2):
        plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 1
    driver.capturing(1)
    plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 1 and driver.launches() == 8 * KERNELS


@pytest.mark.parametrize(
    "function", ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"]
)
def test_a_driver_that_refuses_a_graph_launches_one_by_one(driver, function):
    plan = plan_of(driver)
    driver.fail(function, 2)
    for calls in range(1, 8):
        plan(0, 4096, 3, 5)
        assert driver.launches() == calls * KERNELS
    assert driver.graph_launches() == 0
    del plan
    gc.collect()
    assert driver.live_graphs() == 0


def test_an_error_while_recording_names_the_kernel(driver):
    plan = plan_of(driver)
    for _ in range(2):
        plan(0, 4096, 3, 5)
    driver.fail("cuLaunchKernel", 700, after=2)
    with pytest.raises(cuda.DriverError, match=r"kernel k2 \(model.py:12\) does not start"):
        plan(0, 4096, 3, 5)
    driver.fail("cuLaunchKernel", 0)
    for _ in range(4):
        plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 3
    del plan
    gc.collect()
    assert driver.live_graphs() == 0


def test_a_forked_child_leaves_its_parents_graphs(driver):
    plan = plan_of(driver)
    for _ in range(4):
        plan(0, 4096, 3, 5)
    child = os.fork()
    if child == 0:
        del plan
        gc.collect()
        os._exit(0 if driver.live_graphs() == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert driver.live_graphs() == 1


def test_blocking_launches_are_one_by_one(driver, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    plan = plan_of(driver)
    for _ in range(6):
        plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 0
