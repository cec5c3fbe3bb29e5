"""Plans that run again are issued as graphs: what is launched, and what happens where that cannot be."""

import gc
import os

import pytest
from bascule.runtime.kernels import cuda_driver

KERNELS = 5


def plan_of(driver, kernels=KERNELS):
    functions = [driver.function(f"k{i}", (8, 4)) for i in range(kernels)]
    return cuda_driver.Plan(
        [(f, ("slot", 1), [("slot", 0, 16 * i, "ptr"), ("slot", 2, 0, "i32")]) for i, f in enumerate(functions)]
    )


def one_call(driver):
    """The launches of the last call."""
    return driver.lines()[-KERNELS:]


def test_the_same_is_launched(driver):
    plan = plan_of(driver)
    plan(0, 4096, 3, -1)
    want = one_call(driver)
    assert [line.split()[0] for line in want] == [f"k{i}" for i in range(KERNELS)]
    for calls in range(2, 8):
        plan(0, 4096, 3, -1)
        assert one_call(driver) == want
        assert driver.launches() == calls * KERNELS and driver.graph_launches() == max(0, calls - 2)
    assert driver.parameters_set() == 0


def test_other_slots_are_set_where_they_differ(driver):
    plan = plan_of(driver)
    for call in range(40):
        plan(0, 4096 * (call // 8), 2 + call % 2, call // 8)
        (first, *_) = one_call(driver)
        assert f"grid {2 + call % 2} " in first and f": {4096 * (call // 8):x} {call // 8:x}" in first
    assert driver.graph_launches() == 38 and driver.launches() == 40 * KERNELS
    assert driver.live_graphs() == 2, "the graph, and what runs of it"


def test_only_kernels_that_are_given_something_else_are_set(driver):
    functions = [driver.function(f"k{i}", (8, 4)) for i in range(KERNELS)]
    plan = cuda_driver.Plan(
        [(f, 1, [("slot", 0, 0, "ptr"), ("slot", 1 if i == 3 else 2, 0, "i32")]) for i, f in enumerate(functions)]
    )
    for number in range(10):
        plan(0, 4096, number, 5)
        assert one_call(driver)[3].endswith(f": 1000 {number:x}") or f": 1000 {number:x} " in one_call(driver)[3]
    assert driver.graph_launches() == 8 and driver.parameters_set() == 7


def test_a_kernel_without_programs_is_left_out(driver):
    plan = cuda_driver.Plan(
        [(driver.function(f"k{i}", (8,)), ("slot", 1 + i % 2), [("slot", 0, 0, "ptr")]) for i in range(KERNELS)]
    )
    for call in range(12):
        plan(0, 4096 * call, 2, call % 3)
        names = [line.split()[0] for line in driver.lines()[-(KERNELS if call % 3 else 3) :]]
        assert names == [f"k{i}" for i in range(KERNELS) if call % 3 or i % 2 == 0]
        assert f": {4096 * call:x}" in driver.lines()[-1]
    assert driver.graph_launches() == 7


def test_a_refused_number_leaves_the_graph_right(driver):
    """Parameters that were set before the refusal are not in the graph."""
    plan = plan_of(driver)
    for _ in range(4):
        plan(0, 4096, 3, 5)
    before = driver.launches()
    with pytest.raises(cuda_driver.DriverError, match="in 32 bits"):
        plan(0, 8192, 3, 2**40)
    assert driver.launches() == before
    plan(0, 8192, 3, 5)
    assert f": {8192:x} 5" in one_call(driver)[0]


def test_streams_that_take_turns_do_not_wait_for_each_other(driver):
    plan = plan_of(driver)
    for _ in range(8):
        for stream in (7, 8):
            plan(stream, 4096, 3, 5)
            assert all(f"stream {stream} " in line for line in one_call(driver))
    assert driver.graph_launches() == 0
    for _ in range(3):
        plan(8, 4096, 3, 5)
        assert all("stream 8 " in line for line in one_call(driver))
    assert driver.graph_launches() == 3


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
    assert driver.graph_launches() == 2
    driver.capturing(1)
    plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 2 and driver.launches() == 8 * KERNELS


REFUSING = ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"]


@pytest.mark.parametrize("function", REFUSING)
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


def test_parameters_that_the_driver_does_not_set_launch_one_by_one(driver):
    plan = plan_of(driver)
    for k in range(8):
        if k == 5:
            driver.fail("cuGraphExecKernelNodeSetParams_v2", 1, after=2)
        plan(0, 4096 * k, 3, 5)
        assert [f": {4096 * k + 16 * i:x} 5" in line for i, line in enumerate(one_call(driver))] == [True] * KERNELS
    assert driver.graph_launches() == 3 and driver.live_graphs() == 0


def test_an_error_of_a_graph_names_the_kernel(driver):
    plan = plan_of(driver)
    for _ in range(2):
        plan(0, 4096, 3, 5)
    driver.fail("cuGraphLaunch", 700)
    driver.fail("cuLaunchKernel", 700, after=2)
    with pytest.raises(cuda_driver.DriverError, match=r"kernel k2 \(model.py:12\) does not start"):
        plan(0, 4096, 3, 5)
    assert driver.live_graphs() == 0


def test_a_forked_child_leaves_its_parents_graphs(driver):
    plan = plan_of(driver)
    for _ in range(4):
        plan(0, 4096, 3, 5)
    child = os.fork()
    if child == 0:
        del plan
        gc.collect()
        os._exit(0 if driver.live_graphs() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert driver.live_graphs() == 2


def test_blocking_launches_are_one_by_one(driver, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    plan = plan_of(driver)
    for _ in range(6):
        plan(0, 4096, 3, 5)
    assert driver.graph_launches() == 0
