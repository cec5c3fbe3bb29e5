"""`max_autotune`: schedules near a kernel's own compute the same, and the fastest is taken. Measurements are made up: there is no GPU."""

from types import SimpleNamespace

import pytest
import torch
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.scheduling.tuning.neighbours import neighbours
from bascule.lowering.triton.compile import programs
from bascule.lowering.triton.kernels.schedule import schedule_of
from bascule.runtime.kernels import benchmarking, cuda_driver

import bascule
from bascule.autotuning import session
from bascule.autotuning.kernels import tune
from bascule.targets.interpret import Interpret
from tests.targets.target_cases import CASES, results, tolerance

NAMES = ["pointwise", "transposed", "sum of columns", "softmax", "a long row", "layer_norm with gradients", "in place"]


@pytest.mark.parametrize("pick", range(8))
@pytest.mark.parametrize("name", NAMES)
def test_every_neighbour_computes_the_same(name, pick, monkeypatch):
    """Kernels have neighbour number `pick` of their schedule, where there is one."""
    function, inputs = CASES[name]
    lower, changed = programs.lower_kernels, []

    def lowered(module, *arguments):
        with module.context:
            for f in functions(module):
                kernel = kernel_op(f)
                near = neighbours(kernel) if kernel is not None else []
                assert len(near) <= 9
                if pick < len(near):
                    assert near[pick].schedule != kernel.attributes["schedule"]
                    kernel.attributes["schedule"] = near[pick].schedule
                    schedule_of(kernel)
                    changed.append(near[pick].change)
        return lower(module, *arguments)

    monkeypatch.setattr(programs, "lower_kernels", lowered)
    compiled = torch.compile(function, backend="bascule", options={"target": "interpret", "on_error": "raise"})
    for want, got in zip(results(function, inputs), results(compiled, inputs), strict=True):
        torch.testing.assert_close(got, want, **tolerance(name))
    assert changed or pick > 1


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A device on which every kernel loads; `gpu(times)` says how long the variants of each take."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_driver, "capability", lambda device: 90)
    monkeypatch.setattr(session, "device_name", lambda device: "a device")
    monkeypatch.setattr(cuda_driver, "load_kernels", lambda images, device, refuse: dict.fromkeys(images))
    monkeypatch.setattr(session, "versions", lambda: {"all": "1"})
    asked = []

    def measured(times):
        def times_of(kernels, arguments, device):
            asked.append([(a.dtype, a.elements) for a in arguments])
            return {name: times(number) for number, name in enumerate(kernels)}

        monkeypatch.setattr(benchmarking, "times_of", times_of)
        return asked

    return measured


def tuned(monkeypatch, function, *inputs):
    """The schedule before and after, and what is told, of the only kernel."""
    found = []

    def interpret(self, module, record):
        with module.context:
            (kernel,) = (kernel_op(f) for f in functions(module) if kernel_op(f) is not None)
            before = str(kernel.attributes["schedule"])
            tune(module, SimpleNamespace(name="cuda", index=0), record)
            found.append((before, str(kernel.attributes["schedule"]), record.untuned))
        return compile_(self, module, record)

    compile_ = Interpret.compile
    torch._dynamo.reset()
    with monkeypatch.context() as patch:
        patch.setattr(Interpret, "compile", interpret)
        explanation = bascule.explain(function, *inputs, options={"target": "interpret", "on_error": "raise"})
    (kernel,) = explanation.graphs[0].kernels
    return *found[0], kernel.tuned


def test_the_fastest_is_taken_and_kept(gpu, monkeypatch):
    asked = gpu(lambda number: 2.0 if number != 2 else 1.0)
    x = torch.randn(300, 70)
    before, after, untuned, told = tuned(monkeypatch, lambda x: x.exp() + 1, x)
    assert before != after and untuned is None and "instead of 2000.0 us" in told
    assert asked == [[(torch.float32, 21000), (torch.float32, 21000)]]
    again = tuned(monkeypatch, lambda x: x.exp() + 1, x)
    assert again == (before, after, None, told) and len(asked) == 1, "measured once"


def test_what_is_hardly_faster_is_not_taken(gpu, monkeypatch):
    gpu(lambda number: 1.0 if number == 0 else 0.99)
    before, after, _, told = tuned(monkeypatch, lambda x: x.exp() + 1, torch.randn(300, 70))
    assert before == after and "the fastest" in told


def test_a_device_without_room_changes_nothing(gpu, monkeypatch):
    def full(number):
        raise torch.OutOfMemoryError("no room")

    gpu(full)
    before, after, untuned, told = tuned(monkeypatch, lambda x: x.exp() + 1, torch.randn(300, 70))
    assert before == after and "no room" in untuned and told is None


def test_no_sum_is_measured_where_deterministic_algorithms_are_asked_for(gpu, monkeypatch):
    asked = gpu(lambda number: 2.0 if number != 2 else 1.0)
    torch.use_deterministic_algorithms(True)
    try:
        for function in (lambda x: x.sum(-1), lambda x: x.cumsum(-1)):
            before, after, _, told = tuned(monkeypatch, function, torch.randn(300, 70))
            assert before == after and "deterministic" in told and not asked
        tuned(monkeypatch, lambda x: x.exp() + 1, torch.randn(300, 70))
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(asked) == 1


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_without_a_gpu_it_says_why_nothing_is_measured(target, mode):
    explanation = bascule.explain(torch.sin, torch.randn(9), mode=mode, options={"target": target, "cache": False})
    assert explanation.graphs[0].untuned and explanation.graphs[0].untuned in str(explanation)
