"""CUDA graphs: what is recorded of a graph, what is not and why, and the memory that it takes. No GPU: graphs are traced with fake tensors."""

from functools import partial

import pytest
import torch
from bascule.frontend.fx.graph_ends import inputs_of
from bascule.runtime.cudagraphs.recording import Recording
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map_only

import bascule
from bascule.cudagraphs import unsafe_operators
from bascule.cudagraphs.capture_plan import Refusal, mark, recording_of
from bascule.cudagraphs.pool_size import pool_bytes, pool_of
from bascule.entry.backend import compile_dynamo_graph
from bascule.reporting.pool import Pool
from bascule.targets.placement import host_work
from tests.cudagraphs.stand_in_trees import Model, compiled


def traced(function, *shapes, static=(), names=(), devices=None):
    """`function` as a graph whose inputs, marked, are on cuda:0 or where `devices` says; traced on the CPU, which this PyTorch is built for."""
    gm = make_fx(function, tracing_mode="fake")(*map(torch.empty, shapes))
    for number, node in enumerate(gm.graph.nodes):
        if node.op == "placeholder":
            where = torch.device(devices[number] if devices else "cuda:0")
        else:
            near = [x.device for n in node.all_input_nodes for x in unsafe_operators.tensors(n.meta.get("val"))]
            where = node.kwargs.get("device") or max(near, key=str, default=torch.device("cpu"))
        node.meta["val"] = tree_map_only(FakeTensor, partial(_on, where), node.meta.get("val"))
    mark(gm, (n in static for n in range(len(shapes))), list(names))
    return gm


def _on(device, x):
    return FakeTensor(x.fake_mode, torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), device)


def decided(gm, direction="inference"):
    return recording_of(gm, "graph0", direction)


def test_static_inputs_are_not_copied_and_may_be_written():
    def f(weight, x, buffer):
        buffer.copy_(buffer + 1)
        return (x @ weight,)

    what = decided(traced(f, (4, 4), (4, 4), (4,), static=(0, 2), names=["w", "x", "b"]))
    assert isinstance(what, Recording)
    assert (what.static, what.written, what.host, what.device) == ((0, 2), (2,), (), 0)
    assert [x.name for x in what.inputs] == ["w", "x", "b"] and what.inputs[2].written_at is None
    assert len(what.outputs) == 1


def test_a_graph_on_the_cpu_has_nothing_to_record():
    assert decided(traced(lambda x: (x + 1,), (4,), devices=["cpu"])) is None


def test_tensors_on_the_cpu_are_moved_before():
    assert decided(traced(lambda x, s: (x * s,), (4,), (), devices=["cuda:0", "cpu"])).host == (1,)


@pytest.mark.parametrize(
    ("function", "shapes", "kwargs", "says"),
    [
        (lambda x: (x.add_(1), x * 2)[1:], [(4,)], {}, ["writes to 'cache'", "buffer of the module"]),
        (lambda x, s: (x + 1, s), [(4,), ()], {"devices": ["cuda:0", "cpu"]}, ["returns 's'", "on the CPU"]),
        (lambda x, y: (x + 1, y + 1), [(4,), (4,)], {"devices": ["cuda:0", "cuda:1"]}, ["'cuda:0'", "'cuda:1'"]),
    ],
)
def test_a_refusal_names_the_tensor_and_what_to_change(function, shapes, kwargs, says):
    what = decided(traced(function, *shapes, names=["cache", "s"], **kwargs))
    assert isinstance(what, Refusal)
    for part in says:
        assert part in str(what)


def writes_on_the_cpu(x, count, scale):
    torch.ops.aten.copy_.default(count, count * 2 + 1)
    return torch.sin(x) + scale, scale * 3


def test_work_that_stays_on_the_cpu_runs_by_itself():
    gm = traced(writes_on_the_cpu, (4,), (), (), static=(1,), names=["x", "count"], devices=["cuda:0", "cpu", "cpu"])
    assert [node.name for node in host_work(gm.graph, replayed=False)] == ["mul", "add", "copy_"]
    assert [node.name for node in host_work(gm.graph, replayed=True)] == ["mul", "add", "copy_", "mul_1"]
    gm.graph.output_node().args = (gm.graph.output_node().args[0][:1],)
    assert "writes to 'count', a tensor on the CPU" in str(decided(gm))
    all_of_it = traced(writes_on_the_cpu, (4,), (), (), devices=["cpu"] * 3)
    assert host_work(all_of_it.graph, replayed=True) == {}


def test_seeds_of_a_dropout_are_moved_before():
    """They are on the host where the forward was not recorded, and nobody keeps them where they are."""
    backward = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    graph = torch.fx.Graph()
    names = ("gradient", "query", "key", "value", "bias", "out", "lse", "seed", "offset")
    inputs = [graph.placeholder(name) for name in names]
    made = graph.call_function(backward, (*inputs, 0.1, [True, True, True, False]))
    graph.output((made,))
    on_gpu = FakeTensor(FakeTensorMode(), torch.empty(2, 3, 8, 8, device="meta"), torch.device("cuda:0"))
    for node in (*inputs, made):
        node.meta["val"] = on_gpu
    gm = torch.fx.GraphModule({}, graph)
    mark(gm, [True] * len(names), list(names))
    recording = decided(gm, "backward")
    assert recording.host == (7, 8) and recording.static == (0, 1, 2, 3, 4, 5, 6)


def test_what_a_gpu_computes_is_moved_before_it_is_written():
    def f(x, kept):
        torch.ops.aten.copy_.default(kept, torch.ops.aten._to_copy(torch.sin(x), device=torch.device("cpu")) + 1)
        return (x * 2,)

    gm = traced(f, (4,), (4,), static=(1,), devices=["cuda:0", "cpu"])
    assert [node.name for node in host_work(gm.graph, replayed=False)] == ["add", "copy_"]


def test_a_number_is_refused():
    gm = traced(lambda x, y: (x + y,), (4,), (4,), names=["x", "scale"])
    inputs_of(gm.graph)[1].meta["val"] = 1.5
    assert "'scale' is a number" in str(decided(gm))


SET_DATA = "shallow_copy_data_" if hasattr(torch.ops.aten, "shallow_copy_data_") else "set_"  # what `x.data = y` is


@pytest.mark.parametrize(
    ("function", "shapes", "operators"),
    [
        (lambda x: (torch.sin(x) @ x,), [(4, 4)], []),
        (lambda x: (torch.ops.aten._to_copy(torch.sin(x), device=torch.device("cpu")) + 1,), [(4, 4)], ["_to_copy"]),
        (lambda x: (torch.linalg.svdvals(x) + 1,), [(4, 4)], ["_linalg_svd"]),
        (lambda x, v: (torch.index_put(x, [x > 0], v),), [(4,), ()], []),
        (lambda x, v: (torch.index_put(x, [x > 0], v),), [(4,), (4,)], ["index_put"]),
        (lambda x, y: (getattr(torch.ops.aten, SET_DATA)(x, y),), [(4,), (4,)], [SET_DATA]),
        (lambda x: (torch.histc(x, 4, 0, 3),), [(4,)], []),
        (lambda x: (torch.histc(x, bins=4, min=0.0, max=1.0),), [(4,)], []),
        (lambda x: (torch.histc(x, 4),), [(4,)], ["histc"]),
        (lambda x: (torch.histc(x, 4, 2, 2),), [(4,)], ["histc"]),
        (lambda x, w: (torch.ops.bascule.grouped_mm(x, w, x[:2, 0].int()),), [(64, 32), (2, 32, 64)], []),
        (
            lambda x, w: (torch.ops.bascule.grouped_mm(x, w, x[:2, 0].int()),),
            [(64, 8), (2, 8, 64)],
            ["bascule::grouped_mm"],
        ),
    ],
)
def test_operators_that_no_recording_holds(function, shapes, operators):
    found = unsafe_operators.unrecordable(traced(function, *shapes).graph)
    assert [node.target._schema.name.removeprefix("aten::") for node in found] == operators
    assert all("CUDA graph" in reason for reason in found.values())


def test_an_author_may_mark_an_operator():
    if not hasattr(torch.Tag, "cudagraph_unsafe"):
        pytest.skip("this PyTorch has no such tag")

    @torch.library.custom_op("bascule_replay::synchronises", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
    def synchronises(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    synchronises.register_fake(torch.empty_like)
    (reason,) = unsafe_operators.unrecordable(traced(lambda x: (synchronises(x) + 1,), (4,)).graph).values()
    assert "author" in reason


def test_a_training_step(on_cpu):
    model, x, y = Model(), torch.randn(8, 6), torch.randn(8, 6)
    call = compiled(model)
    call(x, y).sum().backward()
    forward, backward = on_cpu.made
    assert (forward.direction, backward.direction) == ("forward", "backward")
    names = [x.name for x in forward.inputs]
    copied = {names[n] for n in range(len(names)) if n not in forward.static}
    assert copied == {"x", "y"}
    assert len(forward.written) == 3 and set(forward.written) < set(forward.static)
    # An error about a gradient that is read too late names it, and what to change.
    told = [x for x in backward.outputs_told() if x is not None]
    assert any(".linear.weight'" in x and x.startswith("the gradient of") and "set_to_none=False" in x for x in told)
    # Everything but the gradient of the output is where the forward left it.
    (tangent,) = (n for n in range(len(backward.inputs)) if n not in backward.static)
    assert backward.inputs[tangent].name.startswith("tangents")
    assert bascule.counters()["cudagraphs"] == {"graphs": 2}
    call(x, y).sum().backward()
    assert bascule.counters()["cudagraphs"] == {"graphs": 2, "recordings": 2}


def test_parts_are_replayed_around_an_operator_that_synchronises(on_cpu):
    def f(x, w):
        return torch.linalg.svdvals(torch.sin(x)) * 2 + w

    x, w = torch.randn(5, 5), torch.randn(5)
    call = compiled(f)
    for _ in range(3):
        torch.testing.assert_close(call(x, w), f(x, w))
    assert len(on_cpu.made) == 2 and bascule.counters()["cudagraphs"] == {"graphs": 2, "recordings": 2}
    assert any("_linalg_svd" in key and "CUDA graph" in key for key in bascule.counters()["cuts"])


def test_a_count_on_the_cpu_is_written_beside_the_recording(on_cpu, monkeypatch):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.count.add_(1)
            return torch.sin(x) * 2

    def work(graph, *, replayed):
        (write,) = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        return {node: "on the CPU" for node in (write.args[1], write)}

    monkeypatch.setattr("bascule.compiler.whole_or_split.host_work", work)
    model = Counting()
    call = compiled(model)
    for number in range(1, 5):
        x = torch.randn(3)
        torch.testing.assert_close(call(x), torch.sin(x) * 2)
        assert model.count == number
    (what,) = on_cpu.made
    assert len(what.inputs) == 1 and not what.written


def test_what_parts_save_stays_and_what_runs_alone_does_not(on_cpu):
    def f(x):
        return (torch.linalg.svd(torch.sin(x))[1].cos() * 2).sin()

    x = torch.randn(5, 5, requires_grad=True)
    compiled(f)(x).sum().backward()
    backward = [what for what in on_cpu.made if what.direction == "backward"]
    saved = {x.name for what in backward for n, x in enumerate(what.inputs) if n in what.static}
    assert backward and saved
    assert not {name for name in saved if "svd" in name or name.startswith("getitem")}


def test_frozen_weights_are_no_inputs_of_the_recording(on_cpu):
    model, x, y = Model().eval(), torch.randn(8, 6), torch.randn(8, 6)
    call = compiled(model, freezing=True)
    with torch.no_grad():
        for _ in range(3):
            x, y = torch.randn(8, 6), torch.randn(8, 6)
            torch.testing.assert_close(call(x, y), model(x, y))
    (what,) = on_cpu.made
    assert [one.name for one in what.inputs] == ["x", "y"] and what.static == ()
    weight = model.linear.weight
    assert what.constants and all(isinstance(x, torch.Tensor) for x in what.constants)
    assert any(x.numel() == weight.numel() for x in what.constants)  # also of a call that is finished later
    assert bascule.counters()["cudagraphs"] == {"graphs": 1, "recordings": 1}


def test_explained(on_cpu):
    text = str(bascule.explain(Model(), torch.randn(8, 6), torch.randn(8, 6), options={"cudagraphs": True}))
    assert "CUDA graph: replayed: 7 inputs stay in place, 2 are copied" in text
    assert "bytes of copied inputs" in text


def test_the_pool_is_foretold(on_cpu):
    """Saved tensors stay until the backward has run; a view of one takes nothing more."""

    def f(x, w):
        return (torch.sin(x) @ w).relu()

    x, w = torch.randn(64, 32, requires_grad=True), torch.randn(32, 16, requires_grad=True)
    records = []
    backend = partial(compile_dynamo_graph, on_record=records.append)
    torch.compile(f, backend=backend, options={"on_error": "raise", "cudagraphs": True})(x, w).sum().backward()
    forward, backward = (record.pool for record in records)
    assert str(forward) in records[0].replay and str(backward) in records[1].replay
    assert forward.inputs == 4 * (x.numel() + w.numel())
    assert forward.outputs >= 4 * 64 * 16 and backward.outputs == forward.inputs
    want = max(forward.running, forward.outputs + backward.running)
    assert pool_bytes([forward, backward]) == want == pool_bytes(iter([forward, backward]))
    assert backward.running == int(backward.arena) + backward.inputs + backward.outputs


def test_views_of_one_result_have_its_memory_once():
    gm = make_fx(lambda x: (lambda y: (y, y.t(), x[1:]))(torch.sin(x)), tracing_mode="fake")(torch.ones(8, 4))
    what = Recording("graph0", 0, "inference", (), ())
    assert pool_of(what, gm, None) == Pool("0", 4 * 32, 4 * 32)


@pytest.mark.parametrize(("direction", "want"), [("inference", 4 << 20), ("forward", 4 << 20), ("backward", 0)])
def test_large_tensors_are_counted_apart_where_all_live_at_one_time(direction, want):
    """A backward frees what its forward has saved while it runs; small tensors have other segments."""
    gm = make_fx(lambda x: (x[:, None] * x, x.sum()), tracing_mode="fake")(torch.ones(1024))
    what = Recording("graph0", 0, direction, (), ())
    assert pool_of(what, gm, None) == Pool("0", 4 << 10, (4 << 20) + 4, want)


def test_large_memory_is_reserved_before_the_first_call(on_cpu):
    def f(x):
        return (x[:, None] * x).sin()

    call = compiled(f, cudagraphs=True)
    for _ in range(2):
        call(torch.randn(1024))
    assert on_cpu.reserved == [4 << 20]
    call(torch.randn(2048))  # dynamic sizes from here: smaller ones may come as well
    assert on_cpu.reserved == [4 << 20]
