"""CUDA graphs: what is recorded, what is not and why. No GPU: graphs are traced with fake tensors, and what records is a stand-in."""

import warnings
from collections import Counter
from functools import partial

import pytest
import torch
from bascule.lowering.cpu.machine_code import MachineCode
from bascule.runtime.replay import Input, Limits, Recording, Replayed, telling_backward
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map_only

import bascule
from bascule import recordings, replay, unrecordable
from bascule.backend import compile_dynamo_graph
from bascule.devices import host_work
from bascule.directions import compile_direction
from bascule.errors import CompilerError, ReplayWarning
from bascule.options import make_options
from bascule.pools import Pool, pool_bytes, pool_of
from bascule.recordings import Refusal, mark, placeholders, recording_of


class Trees:
    """Runs what it is to record: a first call as warm-up, a second as a recording; `again` records at each."""

    def __init__(self):
        self.made, self.now, self.held, self.again, self.told = [], False, 0, False, []

    def record(self, call, what):
        self.made.append(what)
        calls = 0

        def run(args):
            nonlocal calls
            calls += 1
            self.now = calls == 2 or (self.again and calls > 1)
            try:
                return call(args)
            finally:
                self.now = False

        return run

    def capturing(self):
        return self.now

    def held_bytes(self, device):
        return self.held

    def total_bytes(self, device):
        return 1000

    def unavailable(self):
        return None

    def running_backward(self, device):
        self.told.append(device)


class Log:
    def __init__(self):
        self.counts, self.reasons, self.moved = Counter(), [], []

    def recorded(self):
        self.counts["recorded"] += 1

    def recorded_again(self, moved):
        self.moved.append([x.name for x in moved])

    def stopped(self, why):
        self.reasons.append(why)


def traced(function, *shapes, static=(), names=(), devices=None):
    """`function` as a graph whose inputs, marked, are on cuda:0 or where `devices` says; traced on the CPU, which this PyTorch is built for."""
    gm = make_fx(function, tracing_mode="fake")(*map(torch.empty, shapes))
    for number, node in enumerate(gm.graph.nodes):
        if node.op == "placeholder":
            where = torch.device(devices[number] if devices else "cuda:0")
        else:
            near = [x.device for n in node.all_input_nodes for x in unrecordable.tensors(n.meta.get("val"))]
            where = node.kwargs.get("device") or max(near, key=str, default=torch.device("cpu"))
        node.meta["val"] = tree_map_only(FakeTensor, partial(_on, where), node.meta.get("val"))
    mark(gm, (n in static for n in range(len(shapes))), list(names))
    return gm


def _on(device, x):
    return FakeTensor(x.fake_mode, torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), device)


def decided(gm, direction="inference"):
    return recording_of(gm, "graph0", direction)


def boxed(function):
    def call(args):
        given = list(args)
        args.clear()
        return function(*given)

    return call


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


def test_what_a_gpu_computes_is_moved_before_it_is_written():
    def f(x, kept):
        torch.ops.aten.copy_.default(kept, torch.ops.aten._to_copy(torch.sin(x), device=torch.device("cpu")) + 1)
        return (x * 2,)

    gm = traced(f, (4,), (4,), static=(1,), devices=["cuda:0", "cpu"])
    assert [node.name for node in host_work(gm.graph, replayed=False)] == ["add", "copy_"]


def test_a_number_is_refused():
    gm = traced(lambda x, y: (x + y,), (4,), (4,), names=["x", "scale"])
    placeholders(gm.graph)[1].meta["val"] = 1.5
    assert "'scale' is a number" in str(decided(gm))


@pytest.mark.parametrize(
    ("function", "shapes", "operators"),
    [
        (lambda x: (torch.sin(x) @ x,), [(4, 4)], []),
        (lambda x: (torch.ops.aten._to_copy(torch.sin(x), device=torch.device("cpu")) + 1,), [(4, 4)], ["_to_copy"]),
        (lambda x: (torch.linalg.svdvals(x) + 1,), [(4, 4)], ["_linalg_svd"]),
        (lambda x, v: (torch.index_put(x, [x > 0], v),), [(4,), ()], []),
        (lambda x, v: (torch.index_put(x, [x > 0], v),), [(4,), (4,)], ["index_put"]),
    ],
)
def test_operators_that_no_recording_holds(function, shapes, operators):
    found = unrecordable.unrecordable(traced(function, *shapes).graph)
    assert [node.target._schema.name.removeprefix("aten::") for node in found] == operators
    assert all("CUDA graph" in reason for reason in found.values())


def test_an_author_may_mark_an_operator():
    if not hasattr(torch.Tag, "cudagraph_unsafe"):
        pytest.skip("this PyTorch has no such tag")

    @torch.library.custom_op("bascule_replay::synchronises", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
    def synchronises(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    synchronises.register_fake(torch.empty_like)
    (reason,) = unrecordable.unrecordable(traced(lambda x: (synchronises(x) + 1,), (4,)).graph).values()
    assert "author" in reason


def plain(**kwargs):
    return Recording(name="graph0", device=0, direction="inference", inputs=(), outputs=(), **kwargs)


def test_each_size_has_a_recording_up_to_a_limit():
    trees, log = Trees(), Log()
    call = Replayed(
        boxed(lambda n, x: (x * n,)), plain(integers=(0,), sized=(1,)), Limits(shapes=3, bytes=9), trees, log
    )
    for _ in range(4):
        for n in range(1, 6):
            assert torch.equal(call([n, torch.ones(n)])[0], torch.full((n,), float(n)))
    assert len(trees.made) == 3 and log.counts["recorded"] == 3
    assert len(log.reasons) == 1 and "cudagraph_shapes" in log.reasons[0]


def test_no_further_recording_where_memory_is_full():
    trees, log = Trees(), Log()
    call = Replayed(boxed(lambda x: (x + 1,)), plain(sized=(0,)), Limits(shapes=9, bytes=100), trees, log)
    call([torch.ones(1)])
    trees.held = 100
    for _ in range(2):
        assert torch.equal(call([torch.ones(2)])[0], torch.full((2,), 2.0))
    call([torch.ones(1)])
    assert len(trees.made) == 1 and len(log.reasons) == 1 and "cudagraph_bytes" in log.reasons[0]


def test_recording_again_and_again_ends():
    trees, log = Trees(), Log()
    trees.again = True
    call = Replayed(boxed(lambda x: (x + 1,)), plain(), Limits(shapes=1, bytes=9, recordings=5), trees, log)
    for _ in range(20):
        assert torch.equal(call([torch.ones(2)])[0], torch.full((2,), 2.0))
    assert log.counts["recorded"] == 5 and len(log.reasons) == 1 and "5 times" in log.reasons[0]


def test_what_is_recorded_again_is_named():
    trees, log = Trees(), Log()
    trees.again = True
    what = Recording("graph0", 0, "inference", (Input("weight"), Input("x"), Input("bias")), (), static=(0, 2))
    call = Replayed(boxed(lambda w, x, b: (x * w + b,)), what, Limits(9, 9), trees, log)
    w, b = torch.ones(4), torch.ones(4)
    for _ in range(3):
        call([w, torch.ones(4), b])
    call([w, torch.ones(4), torch.ones(4)])
    assert log.moved == [[], ["bias"]]


def test_a_parameter_that_moves_is_told_once(on_cpu):
    model = Model().eval()
    call = compiled(model)
    on_cpu.again = True
    with torch.no_grad(), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ReplayWarning)
        for _ in range(6):
            x, y = torch.randn(2, 6), torch.randn(2, 6)
            torch.testing.assert_close(call(x, y), model(x, y))
            model.linear.weight.data = model.linear.weight.data.clone()
    (warning,) = [str(w.message) for w in found if issubclass(w.category, ReplayWarning)]
    assert "is recorded again" in warning and ".linear.weight' (" in warning and "copy_" in warning
    assert "test_replay.py:" in warning
    assert bascule.counters()["cudagraphs"]["recorded again"] == 4


@pytest.mark.parametrize("direction", ["inference", "backward"])
def test_what_turns_out_not_to_be_recordable_runs_as_it_is(direction):
    trees, log = Trees(), Log()
    what = Recording(name="graph0", device=3, direction=direction, inputs=(), outputs=())
    call = Replayed(boxed(lambda x: (x + 1,)), what, Limits(9, 9), trees, log, lambda: "a kernel of it did not compile")
    for _ in range(3):
        assert torch.equal(call([torch.ones(2)])[0], torch.full((2,), 2.0))
    assert not trees.made and log.reasons == ["a kernel of it did not compile"]
    assert trees.told == ([3] * 3 if direction == "backward" else [])


def test_a_written_input_that_is_not_aligned_is_not_recorded():
    trees = Trees()
    call = Replayed(boxed(lambda x: (x + 1,)), plain(static=(0,), written=(0,)), Limits(9, 9), trees, Log())
    call([torch.ones(9)[1:]])
    assert not trees.made
    call([torch.ones(8)])
    assert len(trees.made) == 1


def test_an_error_while_recording_says_so():
    def fails(x):
        raise RuntimeError("operation not permitted when stream is capturing")

    trees = Trees()
    trees.now = True
    call = Replayed(boxed(fails), plain(), Limits(9, 9), trees, Log())
    trees.again = True
    with pytest.raises(RuntimeError):
        call([torch.ones(1)])
    with pytest.raises(RuntimeError) as caught:
        call([torch.ones(1)])
    assert "cudagraphs" in caught.value.__notes__[-1] and "graph0" in caught.value.__notes__[-1]


def test_a_backward_that_is_not_replayed_tells_the_tree():
    trees = Trees()
    assert telling_backward(boxed(lambda x: (x,)), trees, 3)([1]) == (1,)
    assert trees.told == [3]


@pytest.fixture
def on_cpu(monkeypatch):
    """CPU tensors pass for ones on cuda:0; `Trees` stand for PyTorch's."""
    trees = Trees()

    def devices(graph):
        return {torch.device("cuda:0"): next(iter(graph.nodes))}

    for module in (recordings, unrecordable):
        monkeypatch.setattr(module, "on_gpu", lambda x: True)
    for module in (recordings, replay):
        monkeypatch.setattr(module, "devices_of", devices)
    made = replay.Replays.of
    monkeypatch.setattr(replay.Replays, "of", staticmethod(lambda gm, options: _with(made(gm, options), trees)))
    return trees


def _with(replays, trees):
    replays.recorder = trees
    return replays


def compiled(function, **options):
    options = {"on_error": "raise", "cudagraphs": True, **options}
    return torch.compile(function, backend="bascule", options=options)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)

    def forward(self, x, y):
        return torch.relu(self.norm(self.linear(x))) * y


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
    # Everything but the gradient of the output is where the forward left it.
    (tangent,) = (n for n in range(len(backward.inputs)) if n not in backward.static)
    assert backward.inputs[tangent].name.startswith("tangents")
    assert bascule.counters()["cudagraphs"] == {"graphs": 2}
    call(x, y).sum().backward()
    assert bascule.counters()["cudagraphs"] == {"graphs": 2, "recordings": 2}


def test_an_input_that_is_written_is_warned_about_once(on_cpu):
    def f(state, x):
        state.add_(x)
        return state * 2

    call, state = compiled(f), torch.ones(4)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            call(state, torch.ones(4))
    (told,) = (w for w in found if issubclass(w.category, ReplayWarning))
    assert "'state'" in str(told.message) and "test_replay.py:" in str(told.message)
    assert torch.equal(state, torch.full((4,), 4.0)) and not on_cpu.made
    assert [key for key in bascule.counters()["cudagraphs"] if key.startswith("not replayed: it writes to")]


def test_a_backward_does_not_follow_a_forward_that_is_not_replayed(on_cpu):
    def f(state, x):
        state.add_(1)
        return torch.sin(x) * state

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compiled(f)(torch.ones(4), torch.randn(4, requires_grad=True)).sum().backward()
    assert len([w for w in found if issubclass(w.category, ReplayWarning)]) == 1
    assert not on_cpu.made and not on_cpu.told
    assert bascule.counters()["cudagraphs"]["not replayed: its forward is not replayed"] == 1


def test_a_kernel_that_fails_while_pytorch_goes_on(on_cpu, monkeypatch):
    """What was to be recorded is not, nor the backward: its forward's results stay nowhere."""
    of = MachineCode.of

    def fails(bytecode, called):
        if b"exp" in bytecode:
            raise CompilerError("not for this machine")
        return of(bytecode, called)

    monkeypatch.setattr(MachineCode, "of", staticmethod(fails))
    x = torch.randn(5, requires_grad=True)
    call = compiled(lambda x: torch.exp(x) * 2, cache=False, on_error="aten")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            x.grad = None
            call(x).sum().backward()
            torch.testing.assert_close(x.grad, 2 * x.exp())
    told = [str(w.message) for w in found if issubclass(w.category, ReplayWarning)]
    assert any("it was not compiled" in text for text in told), told
    assert not on_cpu.made and "recordings" not in bascule.counters()["cudagraphs"]


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

    monkeypatch.setattr("bascule.compile.host_work", work)
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


@pytest.mark.parametrize("replayed", [True, False])
def test_inductors_front_asks_with_a_boxed_flag(on_cpu, monkeypatch, replayed):
    """What `compile_fx_inner` is given as `cudagraphs`; the backward is asked for as the forward left it."""
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.utils import BoxedBool

    on_cpu.static_input_numbers = lambda: None
    monkeypatch.setattr("bascule.runtime.cudagraphs", on_cpu, raising=False)
    if not replayed:
        on_cpu.unavailable = lambda: "no CUDA graphs here"
    asked = []

    def inner(*args, cudagraphs, **kwargs):
        asked.append((kwargs.get("is_backward", False), bool(cudagraphs)))
        assert isinstance(cudagraphs, BoxedBool)
        return bascule.compile_fx_inner(*args, cudagraphs=cudagraphs, options={"on_error": "raise"}, **kwargs)

    call = torch.compile(
        lambda x, w: torch.sin(x) * w, backend=lambda gm, inputs: compile_fx(gm, inputs, inner_compile=inner)
    )
    x, w = torch.randn(4, requires_grad=True), torch.randn(4)
    with torch._inductor.config.patch("triton.cudagraphs", True), warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        call(x, w).sum().backward()
    torch.testing.assert_close(x.grad, torch.cos(x) * w)
    assert asked == [(False, True), (True, replayed)]
    assert [what.direction for what in on_cpu.made] == (["forward", "backward"] if replayed else [])


def test_dynamic_sizes(on_cpu):
    call = torch.compile(
        lambda x: torch.softmax(x, -1) * x.shape[0],
        backend="bascule",
        dynamic=True,
        options={"on_error": "raise", "cudagraphs": True, "cudagraph_shapes": 2},
    )
    with pytest.warns(ReplayWarning, match="cudagraph_shapes"):
        for rows in (3, 4, 5, 3, 4, 5, 6):
            x = torch.randn(rows, 7)
            torch.testing.assert_close(call(x), torch.softmax(x, -1) * rows)
    assert len(on_cpu.made) == 2
    assert bascule.counters()["cudagraphs"] == {"graphs": 1, "recordings": 2, "stopped": 1}


def test_explained(on_cpu):
    text = str(bascule.explain(Model(), torch.randn(8, 6), torch.randn(8, 6), options={"cudagraphs": True}))
    assert "CUDA graph: replayed: 7 inputs stay in place, 2 are copied" in text
    assert "bytes of copied inputs" in text


def test_the_pool_is_foretold(on_cpu):
    """What is saved stays until the backward has run; a view of it takes nothing more."""

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


def test_without_the_option_nothing_is_recorded(on_cpu):
    compiled(torch.sin, cudagraphs=False)(torch.ones(4))
    assert not on_cpu.made and bascule.counters()["cudagraphs"] == {}


def test_directions_called_on_their_own():
    """A caller that knows no PyTorch context, as `compile_fx_inner` is called by Inductor."""
    gm = make_fx(lambda x: (x + 1,))(torch.ones(4))
    call = compile_direction(
        "g", make_options("reduce-overhead"), None, gm, [torch.ones(4)], is_backward=False, is_inference=True
    )
    assert torch.equal(call([torch.ones(4)])[0], torch.full((4,), 2.0))
