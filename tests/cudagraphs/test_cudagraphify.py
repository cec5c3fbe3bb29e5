"""CUDA graphs: how recordings are replayed, how many there may be, what is told. No GPU: what records is a stand-in."""

import warnings

import pytest
import torch
from bascule.lowering.cpu.jit.machine_code import MachineCode
from bascule.runtime.cudagraphs.recording import Input, Limits, Recording
from bascule.runtime.cudagraphs.replayed import Replayed, telling_backward
from torch.fx.experimental.proxy_tensor import make_fx

import bascule
from bascule.compiler.autograd_graph import compile_autograd_graph
from bascule.errors import CompilerError, ReplayWarning
from bascule.options import make_options
from tests.cudagraphs.stand_in_trees import Log, Model, Trees, boxed, compiled


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


def test_zeros_without_memory_have_a_recording_that_copies_none():
    trees, log, seen = Trees(), Log(), []
    call = boxed(lambda x, g: seen.append(g._is_zerotensor()) or (x + g,))
    call.nullable = (1,)
    replayed = Replayed(call, plain(), Limits(shapes=9, bytes=9), trees, log)
    given, recorded = [], trees.record
    trees.record = lambda call, what: (lambda run: lambda args: given.append(args[1]) or run(args))(
        recorded(call, what)
    )
    x, zeros = torch.arange(3.0), torch._efficientzerotensor((3,))
    for gradient in (zeros, torch.ones(3), zeros, torch.ones(3)):
        assert torch.equal(replayed([x, gradient])[0], x + gradient)
    assert seen == [True, False, True, False] and len(trees.made) == 2
    assert [type(each) for each in given] == [int, torch.Tensor, int, torch.Tensor]


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
    assert "stand_in_trees.py:" in warning
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
    assert "'state'" in str(told.message) and "test_cudagraphify.py:" in str(told.message)
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
    """Neither the forward nor its backward is captured: the results of the forward stay nowhere."""
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


@pytest.mark.parametrize("replayed", [True, False])
def test_inductors_front_asks_with_a_boxed_flag(on_cpu, monkeypatch, replayed):
    """`compile_fx_inner` takes Inductor's boxed flag as `cudagraphs`; the backward is asked for as the forward left it."""
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.utils import BoxedBool

    on_cpu.static_input_numbers = lambda: None
    monkeypatch.setattr("bascule.runtime.cudagraphs.cudagraph_trees", on_cpu, raising=False)
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


VIEWS = {
    "a half": lambda x: x.chunk(2)[1],
    "all but the first": lambda x: x[1:],
    "each second, as a column": lambda x: x[::2].unsqueeze(1),
    "other dtype": lambda x: x.view(torch.int32)[2:],
    "of twice as many": lambda x: x.view(torch.int16)[5:],
    "itself": lambda x: x.view(-1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_input_is_the_inputs_own(on_cpu, name, grad, dynamic):
    """A replay reads a copy, which begins at another place: AOTAutograd asks what it gives for the place."""
    on_cpu.copies = True
    grad = grad and name not in ("other dtype", "of twice as many")
    call = torch.compile(
        lambda x: (VIEWS[name](x), x.cumsum(0)),
        backend="bascule",
        dynamic=dynamic,
        options={"on_error": "raise", "cudagraphs": True},
    )
    for begin in (4, 1, 5, 3, 0, 3):
        x = torch.randn(34 + begin, requires_grad=grad)[begin:]
        view, sums = call(x)
        wanted = VIEWS[name](x)
        assert (view.storage_offset(), view.stride()) == (wanted.storage_offset(), wanted.stride())
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        torch.testing.assert_close((view, sums), (wanted, x.cumsum(0)))


def test_an_input_that_is_saved_for_the_backward_is_the_copy(on_cpu):
    """The caller's tensor would be copied once more by the backward's replay."""
    call = compiled(lambda x, w: (x[1:], torch.tanh(x * x) * w))
    x, w = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    view, product = call(x, w)
    product.sum().backward()
    assert view._base is x or view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    forward, backward = on_cpu.made
    assert len(forward.outputs) > 2 and [output for output, _ in forward.views] == [0]
    assert len(backward.inputs) > 1


def test_without_the_option_nothing_is_recorded(on_cpu):
    compiled(torch.sin, cudagraphs=False)(torch.ones(4))
    assert not on_cpu.made and bascule.counters()["cudagraphs"] == {}


def test_directions_called_on_their_own():
    """A caller that knows no PyTorch context, as `compile_fx_inner` is called by Inductor."""
    gm = make_fx(lambda x: (x + 1,))(torch.ones(4))
    call = compile_autograd_graph(
        "g", make_options("reduce-overhead"), None, gm, [torch.ones(4)], is_backward=False, is_inference=True
    )
    assert torch.equal(call([torch.ones(4)])[0], torch.full((4,), 2.0))
