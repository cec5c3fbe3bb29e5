"""A kernel that does not compile: its operators run in PyTorch, the rest of the graph as compiled."""

import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from bascule.dialect.interpreter.launch import ReferenceKernel
from bascule.lowering.cpu.kernels.kernel import KernelFunction as CpuFunction
from bascule.lowering.triton.body.emitter import RULES as TRITON_RULES
from bascule.lowering.triton.kernels.kernel import KernelFunction as TritonFunction
from bascule.runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE
from bascule.runtime.kernels.reference_kernels import PartlyCompiledPlans

import bascule
from bascule.errors import FallbackWarning
from bascule.targets import interpret
from tests.targets.target_cases import CASES, DYNAMIC, gpt2, results, tolerance, training_step

# target -> the lowering of a kernel, and what makes its code
LOWERINGS = {"interpret": (TritonFunction, "emit"), "cpu": (CpuFunction, "fill")}


def function(x, w):
    y = torch.softmax(x, -1) @ w  # the product parts two kernels
    return y.relu() + x.sum(), x * 2


def inputs(rows=6):
    return torch.randn(rows, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)


@pytest.fixture(params=LOWERINGS)
def target(request):
    return request.param


@pytest.fixture
def broken(monkeypatch, target):
    """Kernels whose name has this in it do not compile."""

    def breaking(part):
        lowering, method = LOWERINGS[target]
        working = getattr(lowering, method)

        def lower(self, *args):
            made = working(self, *args)  # what was made has to go
            if part in self.name:
                raise ValueError(f"{self.name} is broken")
            return made

        monkeypatch.setattr(lowering, method, lower)

    return breaking


def warned(call):
    """The result of `call`, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = call()
    return out, [str(w.message) for w in caught if issubclass(w.category, FallbackWarning)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_only_this_kernel_runs_in_pytorch(target, broken, dynamic):
    broken("amax")
    x, w = inputs()
    options = {"target": target, "numerics": "f32"}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=dynamic)
    with torch.no_grad():
        got, told = warned(lambda: compiled(x, w))
        torch.testing.assert_close(got, function(x, w))
        if dynamic:
            again, _ = inputs(9)
            torch.testing.assert_close(compiled(again, w), function(again, w))
    (text,) = told
    assert "amax" in text and "is broken" in text and re.search(r"\S+\.mlir", text)
    assert f"{Path(__file__).name}:{function.__code__.co_firstlineno + 1}" in text
    counted = bascule.counters()
    assert counted["graphs"] == {"compiled": 1} and counted["kernels"]["refused"] == 1
    assert counted["kernels"]["distinct"] > 1
    assert any("is broken" in name for name in counted["fallbacks"])


def test_explain_names_it(target, broken):
    broken("amax")
    with pytest.warns(FallbackWarning, match="is broken"):
        explanation = bascule.explain(function, *(x.detach() for x in inputs()), options={"target": target})
    (graph,) = explanation.graphs
    (refused,) = graph.refused
    assert graph.fallback is None and "is broken" in refused and ".mlir" in refused
    assert refused in str(explanation)


def test_gradients(target, broken):
    broken("mul")  # of the backward
    x, w = inputs()
    compiled = torch.compile(function, backend="bascule", options={"target": target})

    def gradients(call):
        first, second = call(x, w)
        return torch.autograd.grad((first * first).sum() + second.sin().sum(), (x, w))

    got, told = warned(lambda: gradients(compiled))
    torch.testing.assert_close(got, gradients(function))
    assert told and bascule.counters()["kernels"]["refused"] == len(told)


def test_where_no_kernel_compiles_the_graph_runs_in_pytorch(target, broken):
    broken("")
    x, w = (v.detach() for v in inputs())
    got, told = warned(lambda: torch.compile(function, backend="bascule", options={"target": target})(x, w))
    torch.testing.assert_close(got, function(x, w))
    assert len(told) == 1 and bascule.counters()["graphs"] == {"fallback": 1}


@pytest.mark.parametrize("options", [{"on_error": "raise"}, {"on_error": "inductor"}])
def test_other_ways_are_the_users_choice(target, broken, options):
    broken("amax")
    x, w = (v.detach() for v in inputs())
    compiled = torch.compile(function, backend="bascule", options={"target": target, **options})
    if options["on_error"] == "raise":
        with pytest.raises(bascule.CompilerError, match="is broken"):
            compiled(x, w)
    else:
        got, told = warned(lambda: compiled(x, w))
        torch.testing.assert_close(got, function(x, w))
        assert "Inductor" in told[0] and bascule.counters()["graphs"] == {"fallback": 1}


@pytest.mark.parametrize("target", ["cpu"])
def test_the_disk_does_not_keep_it(broken, monkeypatch, tmp_path):
    """Who compiles it again is told again, or has a compiler that can."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    x, w = (v.detach() for v in inputs())
    broken("amax")
    for _ in range(2):
        torch._dynamo.reset()
        _, told = warned(lambda: torch.compile(function, backend="bascule")(x, w))
        assert len(told) == 1
    assert bascule.counters()["cache"] == {"miss": 2}


def padded(x):
    return x.cumsum(0), torch.nn.functional.pad(x @ x.t(), (1, 2))


UNGUARDED = (
    "from bascule.lowering.triton.body.emitter import RULES; del RULES['scf.if']"  # guarded reads have no lowering
)


@pytest.fixture
def unguarded(monkeypatch):
    monkeypatch.delitem(TRITON_RULES, "scf.if")


def test_the_reproducer_replays(unguarded, tmp_path):
    """A kernel with an operation that the lowering has no rule for, as it was lowered in the graph."""
    options = {"target": "interpret", "dump": str(tmp_path)}
    _, (text,) = warned(lambda: torch.compile(padded, backend="bascule", options=options)(torch.randn(5, 6)))
    command, *arguments = shlex.split(text.rpartition("replay: ")[2])
    assert command == "bascule-opt" and Path(arguments[-1]).is_relative_to(tmp_path)
    program = f"{UNGUARDED}; from bascule.dialect.tools.opt import main; raise SystemExit(main())"
    replay = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=200)
    assert replay.returncode != 0 and "'scf.if'" in replay.stderr and "Traceback" not in replay.stderr


def test_an_operator_without_a_lowering(unguarded):
    x = torch.randn(5, 6)
    got, told = warned(lambda: torch.compile(padded, backend="bascule", options={"target": "interpret"})(x))
    torch.testing.assert_close(got, padded(x))
    assert len(told) == 1 and "'scf.if'" in told[0]


def test_fallback_error_raises_for_it(unguarded):
    options = {"target": "interpret", "fallback": "error"}
    with pytest.raises(bascule.BasculeError, match=r"'scf\.if'"):
        torch.compile(padded, backend="bascule", options=options)(torch.randn(5, 6))


@pytest.fixture
def all_by_reference(monkeypatch):
    """Every kernel of the target 'interpret' is run as one that was refused."""
    made = []

    def beside(refusals, planner, device):
        names = refusals._kernels()
        made.extend(names)
        references = {name: ReferenceKernel(refusals.module, name, device) for name in names}
        variants = {f"{n}{v}": r for n, r in references.items() for v in (WIDE, NARROW, ALIGNED)}
        return PartlyCompiledPlans(planner, variants)

    monkeypatch.setattr(interpret, "with_references", beside)
    return made


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_kernel_as_eager(name, all_by_reference):
    function, inputs = CASES[name]
    compiled = torch.compile(function, backend="bascule", options={"target": "interpret", "on_error": "raise"})
    for want, got in zip(results(function, inputs), results(compiled, inputs), strict=True):
        torch.testing.assert_close(got, want, **tolerance(name))
        assert got.stride() == want.stride()
    assert all_by_reference


@pytest.mark.parametrize("name", DYNAMIC)
def test_kernels_of_dynamic_sizes_as_eager(name, all_by_reference):
    function, inputs = CASES[name]
    options = {"target": "interpret", "on_error": "raise"}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=True)
    for want, got in zip(results(function, inputs), results(compiled, inputs), strict=True):
        torch.testing.assert_close(got, want, **tolerance(name))


def test_a_training_step(all_by_reference):
    model, inputs = gpt2()
    want = training_step(model, model, inputs)
    options = {"target": "interpret", "on_error": "raise"}
    got = training_step(model, torch.compile(model, backend="bascule", options=options), inputs)
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-6)
