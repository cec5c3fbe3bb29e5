"""A step in a made-up profile: graphs, operators and hooks in order, and nothing of what hooks do themselves."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from bascule.dialect.collectives.costs import Costs
from bascule.dialect.collectives.reducer import Gradient
from bascule.dialect.collectives.sharding import At, Hook
from bascule.dialect.collectives.simulation import Filling
from bascule.dialect.collectives.timeline import Begin, Host, Timeline, Wait, Work, plain

from bascule.errors import UserError
from bascule.ranks.profiled_step import step_of
from bascule.reporting import graph_summary

COSTS = Costs("h200", "nvlink")
GRAPH = (Work(1e-3, Filling(8e-4, 3, 1e-4)), Begin(4, "all_reduce", None, 2), Work(2e-3), Wait(4))


@dataclass
class Event:
    called: str
    began: int
    ended: int
    sizes: tuple = ()
    types: tuple = ()
    thread: int = 1

    def name(self):
        return self.called

    def start_ns(self):
        return self.began

    def duration_ns(self):
        return self.ended - self.began

    def start_thread_id(self):
        return self.thread

    def device_type(self):
        return SimpleNamespace(name="CPU")

    def shapes(self):
        return [list(each) for each in self.sizes]

    def dtypes(self):
        return list(self.types)


@pytest.fixture
def graph(monkeypatch):
    """The name of a range whose graph is known."""
    monkeypatch.setitem(graph_summary._calls, "bascule graph 0", tuple(plain(call) for call in GRAPH))
    return "bascule graph 0"


def test_a_graph_is_its_calls_and_not_what_runs_in_it(graph):
    found = step_of([Event("aten::mm", 2, 3, ((4, 4), (4, 4)), ("float", "float")), Event(graph, 0, 9)], COSTS)
    assert [tuple(step) for step in found.steps] == [GRAPH]
    assert (found.graphs, found.operators) == (1, 0)


def test_a_graph_of_nobody_is_an_error():
    with pytest.raises(UserError, match="another process"):
        step_of([Event("bascule graph 1", 0, 9)], COSTS)


def test_operators_cost_what_they_move_or_compute():
    """Those that call others are these; views and allocations are nothing."""
    events = [
        Event("aten::linear", 0, 9, ((64, 32), (16, 32)), ("c10::BFloat16",) * 2),
        Event("aten::t", 1, 2, ((16, 32),), ("c10::BFloat16",)),
        Event("aten::mm", 3, 8, ((64, 32), (32, 16)), ("c10::BFloat16",) * 2),
        Event("aten::empty_like", 10, 11, ((64, 32),), ("float",)),
        Event("aten::add", 12, 14, ((1 << 20,), (), ()), ("float", "", "Scalar")),
        Event("aten::copy_", 13, 14, ((1 << 20,), (1 << 20,)), ("float", "float")),
    ]
    found = step_of(events, COSTS)
    product = [([64, 32], 2), ([32, 16], 2), ([64, 16], 2)]
    wanted = [[Work(*COSTS.of("aten.mm.default", product))], [Work(COSTS.launch + 2 * 4 * (1 << 20) / 4e12)]]
    assert found.steps == wanted
    assert found.operators == 2


def test_hooks_and_nothing_of_what_they_do(graph):
    """The backward runs in another thread; the end of the step, in which units scatter, is looked into."""
    events = [
        Event("FSDP::root_pre_forward", 0, 9),
        Event("FSDP::pre_forward (blocks.0)", 10, 19),
        Event("c10d::_allgather_base_", 11, 12),
        Event("aten::copy_", 13, 14, ((4,), (4,)), ("float", "float")),
        Event(graph, 20, 29),
        Event("FSDP::post_forward (blocks.0)", 30, 39),
        Event("FSDP::pre_backward (blocks.0)", 40, 49, thread=2),
        Event("FSDP::root_post_backward_callback", 50, 99, thread=2),
        Event("FSDP::post_backward_accumulate (blocks.0)", 51, 59, thread=2),
        Event("FSDP::post_backward_reduce (blocks.0)", 60, 69, thread=2),
        Event("c10d::_reduce_scatter_base_", 61, 62, thread=2),
        Event("aten::add_", 100, 109, ((4,), (4,)), ("float", "float")),
    ]
    found = step_of(events, COSTS)
    hooked, after = found.split()
    assert [each if isinstance(each, At) else len(each) for each in hooked] == [
        At(Hook.PRE_FORWARD, "blocks.0"), 4, At(Hook.POST_FORWARD, "blocks.0"),
        At(Hook.PRE_BACKWARD, "blocks.0"), At(Hook.POST_BACKWARD, "blocks.0"),
    ]  # fmt: skip
    assert len(after) == 1
    assert found.begun == ["all_gather_into_tensor", "reduce_scatter_tensor"]


def test_gradients_of_parameters():
    events = [
        Event("torch::autograd::AccumulateGrad", 0, 9, ((4, 8),), ("c10::BFloat16",)),
        Event("torch::distributed::reducer::mul_out", 1, 5, ((4, 8),), ("c10::BFloat16",)),
        Event("aten::mul", 2, 3, ((4, 8),), ("c10::BFloat16",)),
        Event("c10d::allreduce_", 6, 7),
    ]
    found = step_of(events, COSTS)
    (gradient,) = found.steps
    assert isinstance(gradient, Gradient) and (gradient.bytes, gradient.key) == (64, "c10::BFloat16")
    assert found.begun == ["all_reduce"]


def test_what_is_launched_has_the_times_of_the_host(graph):
    """Half as long as under the profiler, of which the first 10 ns are another's; the calls of a graph one as long after another."""
    events = [
        Event("something else", 0, 10),
        Event(graph, 10, 50),
        Event("FSDP::post_forward (blocks.0)", 60, 69),
        Event("aten::add_", 100, 110, ((4,), (4,)), ("float", "float")),
    ]
    found = step_of(events, COSTS)
    assert found.host_seconds == pytest.approx(110e-9)
    assert [done for _, done in found.host] == pytest.approx([50e-9, 69e-9, 110e-9])
    launched = found.with_host(0.5)
    times = [
        1e9 * each.seconds
        for step in launched.steps
        if not isinstance(step, At)
        for each in step
        if isinstance(each, Host)
    ]
    assert times == pytest.approx([5, 10, 15, 20, 30, 50])
    first, host, hook, last = launched.steps
    assert tuple(first[1::2]) == GRAPH and isinstance(hook, At) and len(host) == 1 and len(last) == 2
    timeline = Timeline(COSTS)
    for step in (first, last):
        timeline.call(step)
    assert 1e9 * timeline.launched[timeline.order[-1]] == pytest.approx(50)
    told = timeline.predicted()
    assert told.step >= 1e-3 + 2e-3


def test_a_hook_is_launched_when_it_begins_its_first_collective(graph):
    """Not when it begins to copy what that sends. What other threads begin, and what comes after it, is none of it."""
    events = [
        Event("FSDP::pre_forward (blocks.0)", 0, 40),
        Event("c10d::_allgather_base_", 5, 6, thread=2),
        Event("c10d::_allgather_base_", 20, 30),
        Event("c10d::_allgather_base_", 31, 32),
        Event("FSDP::post_forward (blocks.0)", 50, 60),
        Event(graph, 60, 90),
        Event("c10d::allreduce_", 70, 80),
    ]
    found = step_of(events, COSTS)
    assert [begun for begun, _ in found.host] == pytest.approx([20e-9, 50e-9, 60e-9])
