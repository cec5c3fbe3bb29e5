"""Keys of traces: what could be wrong misses, and what has no key says why."""

import sys
from contextlib import nullcontext

import pytest
import torch
import torch.utils.checkpoint
from bascule.frontend.fx import custom_operators
from torch._inductor.custom_graph_pass import CustomGraphPass

import bascule
from bascule.compat.versions import running
from tests.cache.cached_calls import gated, inputs, run


def counted():
    return bascule.counters()["traces"]


# What must not hit


def with_deterministic_algorithms(x, w):
    torch.use_deterministic_algorithms(True)
    try:
        return run(gated, x, w)
    finally:
        torch.use_deterministic_algorithms(False)


OTHERS = {
    "an operator": lambda x, w: run(lambda x, w: torch.tanh(x @ w) * x, x, w),
    "a number": lambda x, w: run(lambda x, w: torch.sigmoid(x @ w) * x * 2, x, w),
    "dtypes": lambda x, w: run(gated, x.double(), w.double()),
    "sizes": lambda x, w: run(gated, x[:3], w),
    "strides": lambda x, w: run(gated, x.t().contiguous().t(), w),
    "a storage offset": lambda x, w: run(gated, torch.cat([x, x])[4:], w),
    "shared memory": lambda x, w: run(gated, w[:4], w),
    "a leaf that needs a gradient": lambda x, w: run(gated, x, w.requires_grad_()).detach(),
    "dynamic sizes": lambda x, w: run(gated, x, w, dynamic=True),
    "an option": lambda x, w: run(gated, x, w, numerics="eager"),
    "a pipeline": lambda x, w: run(gated, x, w, pipeline=",".join(p for p in bascule.pipelines.DEFAULT if p != "cse")),
    "deterministic algorithms": with_deterministic_algorithms,
    "a pass over Dynamo's graph": lambda x, w: run(gated, x, w, pre_grad_custom_pass=into_tanh),
}


def into_tanh(graph):
    for node in graph.nodes:
        if node.target is torch.sigmoid:
            node.target = torch.tanh


@pytest.mark.parametrize("what", OTHERS)
def test_other_conditions_miss(folder, what):
    x, w = inputs()
    run(gated, x, w)
    OTHERS[what](x, w)
    assert counted()["miss"] == 2 and "hit" not in counted()


CONTEXTS = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "how long symbols are followed": lambda: torch.fx.experimental._config.patch(use_duck_shape=False),
    "what is saved": lambda: torch._functorch.config.patch(activation_memory_budget=0.5),
}


@pytest.mark.parametrize("what", CONTEXTS)
def test_other_states_miss(folder, what):
    x, w = inputs()
    w.requires_grad_()
    for context in (nullcontext, CONTEXTS[what]):
        with context():
            out = run(gated, x, w)
            wanted = gated(x, w)
        torch.testing.assert_close(out, wanted, rtol=2e-2, atol=2e-2)
        if out.requires_grad:
            out.sum().backward()
    assert counted()["miss"] == 2 and "hit" not in counted()


def test_constants_are_part_of_a_trace(folder):
    x = torch.randn(3)
    for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1.0, 2.0, 3.0]):
        torch.testing.assert_close(run(lambda x, c=values: x * torch.tensor(c), x), x * torch.tensor(values))
    assert counted() == {"miss": 2, "stored": 2, "hit": 1}


def test_guards_decide_between_entries_of_one_key(folder):
    """The decomposition divides the image in equal parts if it can, which is a guard on symbols that only tracing adds."""

    def pooled(x):
        return torch.nn.functional.adaptive_avg_pool2d(x, 3) * 2

    for time in range(2):
        for size in (9, 10, 12, 7):
            x = torch.randn(2, 3, size, size)
            torch.testing.assert_close(run(pooled, x, dynamic=True), pooled(x))
        assert time == 0 or counted()["miss"] <= 4
    assert counted()["hit"] >= 4


def test_calls_that_break_a_guard_after_a_hit_are_compiled_again(folder):
    def pooled(x):
        return torch.nn.functional.adaptive_avg_pool2d(x, 3) * 2

    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(pooled, backend="bascule", dynamic=True, options={"on_error": "raise"})
        for size in (9, 10, 15, 11):
            x = torch.randn(2, 3, size, size)
            torch.testing.assert_close(compiled(x), pooled(x))
    assert counted()["hit"] >= 1


# What has no key


def an_operator_of_ones_own(x):
    return torch.ops.bascule_trace_test.scaled(x)


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda x: torch.sin(x).cos(), x, use_reentrant=False)


def data_replaced(x):
    x.data = x.abs()  # the same when it is done again
    return x + 1


BYPASSED = {
    "the option": (torch.sin, {"cache": False}, "the option 'cache' is off"),
    "a function": (
        torch.sin,
        {"post_grad_custom_pre_pass": lambda graph: None},
        "the option 'post_grad_custom_pre_pass'",
    ),
    "the interpreter": (torch.sin, {"target": "interpret"}, "the target 'interpret'"),
}


@pytest.mark.parametrize("what", BYPASSED)
def test_bypassed(folder, what):
    function, options, reason = BYPASSED[what]
    for _ in range(2):
        x = torch.randn(5)
        torch.testing.assert_close(run(function, x, **options), function(x))
    assert [n for name, n in counted().items() if name.startswith(f"bypass: {reason}")] == [2]
    assert "hit" not in counted() and "stored" not in counted()


def test_a_function_without_a_module(folder):
    """Since 2.14 PyTorch asks no function for its module; before it takes none without one."""
    for _ in range(2):
        x = torch.randn(5)
        copy = x.clone()
        torch.testing.assert_close(run(data_replaced, x), data_replaced(copy))
        torch.testing.assert_close(x, copy)
    bypassed = [n for name, n in counted().items() if "PyTorch does not take one of its functions for a key" in name]
    assert bypassed == [2] if running("torch") < (2, 14) else counted() == {"miss": 1, "stored": 1, "hit": 1}


class Exp(CustomGraphPass):
    """Puts another operator in place of a sine."""

    def __init__(self, target):
        self.target = target

    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = self.target

    def uuid(self):
        return str(self.target)


def test_a_pass_that_tells_itself_from_others_is_a_part_of_the_key(folder):
    x = torch.randn(5)
    for target, function in ((torch.ops.aten.exp.default, torch.exp), (torch.ops.aten.cos.default, torch.cos)):
        for _ in range(2):
            got = run(torch.sin, x, post_grad_custom_pre_pass=Exp(target))
            torch.testing.assert_close(got, function(x))
    assert counted()["hit"] == 2 and counted()["miss"] == 2


def test_a_pass_over_the_joint_graph_runs_on_a_training_step_too(folder):
    for _ in range(2):
        x = torch.randn(5, requires_grad=True)
        out = run(torch.sin, x, joint_custom_pre_pass=Exp(torch.ops.aten.exp.default))
        out.sum().backward()
        torch.testing.assert_close(out, x.exp())
        torch.testing.assert_close(x.grad, x.cos())  # the joint graph has the derivative of the sine already
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_bypassed_for_an_operator_of_the_users_own(folder):
    """Its backward and its decomposition are Python that no key sees: here it is another one at the second time."""
    x = torch.randn(3)
    for factor in (2.0, 3.0):
        with torch.library._scoped_library("bascule_trace_test", "DEF") as library:
            library.define("scaled(Tensor x) -> Tensor")
            library.impl("scaled", lambda x, factor=factor: x * factor, "CompositeImplicitAutograd")
            torch.testing.assert_close(run(an_operator_of_ones_own, x), x * factor)
    assert "hit" not in counted()
    assert any("from outside of PyTorch's own" in name for name in counted())


PACKAGE = """
import torch

def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR

def fake(x):
    return torch.empty_like(x)

def backward(ctx, gradient):
    return gradient * FACTOR

FACTOR = 2.0
if not hasattr(torch.ops, "bascule_trace_package") or not hasattr(torch.ops.bascule_trace_package, "scaled"):
    kept = torch.library.custom_op("bascule_trace_package::scaled", scaled, mutates_args=())
    kept.register_fake(fake)
    kept.register_autograd(backward)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with an operator; gives what writes its version."""
    (tmp_path / "bascule_trace_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)

    def install(version):
        told = tmp_path / "bascule_trace_package-1.dist-info"
        told.mkdir(exist_ok=True)
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bascule_trace_package\nVersion: {version}\n")
        custom_operators._place.cache_clear()

    yield install
    custom_operators._place.cache_clear()
    sys.modules.pop("bascule_trace_package", None)


def an_installed_operator(x):
    return torch.ops.bascule_trace_package.scaled(x) + 1


def test_an_operator_of_an_installed_package_goes_by_its_version(folder, package):
    package("1.0")
    import bascule_trace_package  # noqa: F401

    for version, wanted in (("1.0", {"miss": 1}), ("1.0", {"miss": 1, "hit": 1}), ("2.0", {"miss": 2, "hit": 1})):
        package(version)
        x = torch.randn(3, requires_grad=True)
        out = run(an_installed_operator, x)
        out.sum().backward()
        torch.testing.assert_close(out, x * 2 + 1)
        torch.testing.assert_close(x.grad, torch.full((3,), 2.0))
        assert {name: n for name, n in counted().items() if name != "stored"} == wanted


def test_an_operator_defined_in_a_script_is_not_kept(folder):
    def backward(ctx, gradient):
        return gradient * 2

    operator = torch.library.custom_op(
        "bascule_trace_script::scaled", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(torch.empty_like)
    operator.register_autograd(backward)
    torch.testing.assert_close(run(operator, torch.ones(3)), torch.full((3,), 2.0))
    assert [name for name in counted() if name.startswith("bypass: 'bascule_trace_script")]


def test_inputs_that_share_memory_are_other_inputs(folder):
    def adds(x, y):
        x.add_(1)
        return y * 2

    for _ in range(2):
        whole, copy = torch.zeros(8), torch.zeros(8)
        torch.testing.assert_close(run(adds, whole[:6], whole[2:]), adds(copy[:6], copy[2:]))
        torch.testing.assert_close(whole, copy)
        torch.testing.assert_close(run(adds, torch.zeros(6), torch.zeros(6)), torch.zeros(6))
    assert counted()["miss"] >= 2 and counted()["hit"] >= 1


def test_a_checkpoint_hits(folder):
    x = torch.randn(5, requires_grad=True)
    wanted = torch.autograd.grad(checkpointed(x).sum(), x)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(run(checkpointed, x).sum(), x), wanted)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_bypassed_where_pytorch_says_so(folder):
    with torch._functorch.config.patch(enable_autograd_cache=False):
        run(gated, *inputs())
    assert counted() == {"bypass: AOTAutograd's config.enable_autograd_cache is off": 1}
    assert bascule.counters()["cache"]["stored"] == 1
