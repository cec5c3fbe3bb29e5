"""Programs that are measured: compiled for a GPU that is not there, and compared and timed with what stands for their calls."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.runtime.kernels import benchmarking, cuda_driver

from bascule.autotuning import programs
from bascule.compat.tensors.fake_tensors import FakeTensorMode
from tests.autotuning.products import explained, gpu, matrices

__all__ = ["gpu"]


def test_kernels_are_compiled_beside_each_other_and_refusals_told(gpu, monkeypatch):
    monkeypatch.setattr(cuda_driver, "capability", lambda device: 90)
    asked = gpu(lambda name: 1.0)
    explained(lambda x, w: (x @ w).relu(), *matrices((64, 256), (256, 80)))
    (made,) = asked
    large = str(made["kernel 0"]).replace("stages = 4", "stages = 40")
    assert large != str(made["kernel 0"])
    with made["kernel 0"].context:
        chosen = {"calls": made["calls"], "kernel 0": made["kernel 0"], "large": ir.Module.parse(large)}
    compiling = {name: programs._Compiling(module, 0, cached=False) for name, module in chosen.items()}
    codes = {name: each.compiling.result(each.refused.__setitem__) for name, each in compiling.items()}
    assert [len(code) for code in codes.values()] == [1, 1, 0]
    (error,) = compiling["large"].refused.values()
    assert programs.reason_of(error) == "UserError: -:5:5: the schedule has 40 stages"


def test_inputs_are_as_they_lie_in_memory():
    text = """
      #strided = affine_map<(d0, d1) -> (d0 + d1 * 7)>
      func.func @main(%x: memref<4x3xbf16, #strided>, %i: memref<5xi64>, %m: memref<3xi1>) -> memref<5xi64> attributes {bascule.graph} {
        return %i : memref<5xi64>
      }
    """
    x, i, m = programs.inputs_of(ir.Module.parse(text, context()), torch.device("cpu"))
    assert (x.dtype, x.shape, x.stride()) == (torch.bfloat16, (4, 3), (1, 7)) and x.float().std() > 0.05
    assert i.dtype == torch.int64 and not i.any() and m.dtype == torch.bool


@pytest.fixture
def times(monkeypatch):
    """`times(calls)`: what is told of programs that are `calls`, by name, on a device that is made up."""
    for name in ("device", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: nullcontext())
    monkeypatch.setattr(programs, "inputs_of", lambda module, device: [torch.arange(6.0).view(2, 3)])
    monkeypatch.setattr(
        benchmarking, "times_in_turns", lambda calls, device: {name: float(len(call())) for name, call in calls.items()}
    )

    def told(calls):
        return programs._times(
            {n: SimpleNamespace(call=lambda call=call: call, module=None) for n, call in calls.items()}, 0
        )

    return told


def doubled(given):
    (x,) = given
    given.clear()
    return [x * 2]


def failing(given):
    raise torch.OutOfMemoryError("no room\nfor it")


def test_each_is_run_and_timed(times):
    assert times({"calls": doubled, "kernel 0": doubled}) == {"calls": 1.0, "kernel 0": 1.0}


@pytest.mark.parametrize("other", [lambda x: [x[0] * 2.5], lambda x: [x[0] * torch.nan], lambda x: [torch.zeros(2, 3)]])
def test_what_computes_something_else_is_not_chosen(times, other):
    assert times({"calls": doubled, "kernel 0": other})["kernel 0"] == "it computes something else than the calls"


def test_a_trace_sees_nothing_of_it(times):
    """Graphs are compiled while they are traced, over fake tensors."""

    def product(given):
        found = given[0] @ given[0].t()
        assert type(found) is torch.Tensor and found.dtype == torch.float32
        return [found]

    with FakeTensorMode():
        assert times({"calls": product}) == {"calls": 1.0}


def test_infinities_and_a_part_of_large_results_are_compared(times):
    def infinite(given):
        return [given[0] / torch.tensor([0.0, 1.0, 2.0])]

    def large(factor):
        return lambda given: [torch.arange(1 << 23).view(1 << 12, -1) * factor, torch.arange(4)]

    assert times({"calls": infinite, "kernel 0": infinite})["kernel 0"] == 1.0
    told = times({"calls": large(1.0), "kernel 0": large(1.001), "kernel 1": large(1.1)})
    assert told["kernel 0"] == 2.0 and isinstance(told["kernel 1"], str)


def test_roundings_are_no_difference(times):
    assert times({"calls": doubled, "kernel 0": lambda x: [(x[0] * 2).bfloat16().float() * 1.001]})["kernel 0"] == 1.0


def test_an_error_is_that_programs(times):
    assert times({"calls": doubled, "kernel 0": failing, "kernel 1": doubled}) == {
        "calls": 1.0,
        "kernel 0": "OutOfMemoryError: no room",
        "kernel 1": 1.0,
    }


def test_an_error_of_the_first_is_that_of_all(times):
    assert times({"calls": failing, "kernel 0": doubled}) == dict.fromkeys(
        ("calls", "kernel 0"), "OutOfMemoryError: no room"
    )
