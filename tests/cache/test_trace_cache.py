"""The cache of traces: what hits is right, and nothing wrong is ever loaded."""

import os

import pytest
import torch
import torch.utils.checkpoint
from bascule.frontend.aot import restarts
from bascule.runtime.packages.container import pack, unpack
from torch._functorch._aot_autograd import autograd_cache as torchs
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.output_code import OutputCode
from torch.testing._internal.two_tensor import TwoTensor

import bascule
from bascule.cache import graph_entry
from bascule.cache.disk.files import Refused
from bascule.cache.disk.store import Store
from bascule.compat import versions
from tests.cache.cached_calls import entries, gated, inputs, opened, resigned, run


def counted():
    return bascule.counters()["traces"]


# What hits


def test_a_hit_is_neither_traced_nor_compiled(folder, monkeypatch):
    x, w = inputs()
    first = run(gated, x, w)
    assert counted() == {"miss": 1, "stored": 1}
    monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
    assert torch.equal(run(gated, x, w), first)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    torch.testing.assert_close(first, gated(x, w))


def test_training_step(folder):
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        x, w = (t.requires_grad_() for t in inputs())
        out = run(gated, x, w)
        found.append((out, *torch.autograd.grad(out.square().sum(), (x, w))))
    wanted = gated(x, w)
    wanted = (wanted, *torch.autograd.grad(wanted.square().sum(), (x, w)))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    assert all(map(torch.equal, *found))
    torch.testing.assert_close(found[1], wanted)


def test_a_trace_that_is_given_up_is_given_up_at_once(folder):
    """With `dynamic` the `eps` of a norm is an input at first, of which AOTAutograd can make nothing."""
    norm, x, found = torch.nn.LayerNorm(8), inputs()[0], []
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(norm, x, dynamic=True), norm(x))
            found.append(dict(counted()))
    assert found == [{"miss": 2, "stored": 2}, {"miss": 2, "stored": 2, "hit": 2}]


def test_a_trace_is_not_given_up_for_constants(monkeypatch):
    monkeypatch.setattr(restarts.TensorifyState, "force_specializations", {"zf0"})
    restarts.restart(["zf0"])
    with pytest.raises(restarts.Restart):
        restarts.restart(["zf0", "zf1"])


def test_a_loaded_backward_takes_zeros_without_memory(folder):
    """The gradient of `sgn`, as autograd passes it on."""
    for _ in range(2):
        x = torch.randn(4, requires_grad=True)
        torch.sgn(run(torch.sin, x)).sum().backward()
        assert torch.equal(x.grad, torch.zeros(4))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_without_a_backward_nothing_is_kept_of_a_training_step(folder):
    x, w = (t.requires_grad_() for t in inputs())
    run(gated, x, w)
    assert counted() == {"miss": 1} and entries(folder, "traces") == []


def written(x, y):
    x.mul_(2)
    y[1:].add_(x[1:])
    return x.t(), y


def viewed(x, y):
    a = x + y
    return a, a[1:], x.view(-1)


def constant(x, y):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + y.sum(0, keepdim=True)


def no_tensor(x, y):
    return x + y, 3, None, x.shape[0]


def normalized(x, y):
    return torch.nn.functional.layer_norm(x, (4,)) * torch.softmax(y, -1)


def pooled(x, y):
    return torch.nn.functional.max_pool2d((x * y).unsqueeze(0), 2)  # a function that PyTorch makes by a function


def looked_up(x, y):
    return x[y.argmax(-1)].cumsum(0)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [written, viewed, constant, no_tensor, normalized, looked_up, pooled])
def test_behaves_as_eager_does(folder, function, dynamic):
    """Results, what is written, what shares memory: of a compile, of a hit, of calls with other sizes after that."""
    for time in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
        for rows in (4, 3, 9):
            given = [torch.randn(rows, 4) for _ in range(2)]
            copies = [x.clone() for x in given]
            got, wanted = compiled(*given), function(*copies)
            torch.testing.assert_close(got, wanted)
            torch.testing.assert_close(given, copies)
            shares = [
                [isinstance(o, torch.Tensor) and o.untyped_storage()._cdata == x.untyped_storage()._cdata for x in ins]
                for ins, outs in ((given, got), (copies, wanted))
                for o in (outs if isinstance(outs, tuple) else (outs,))
            ]
            assert shares[: len(shares) // 2] == shares[len(shares) // 2 :]
        assert ("hit" in counted()) == (time == 1)
    assert not [name for name in counted() if name not in ("hit", "miss", "stored")]


def scaled_and_added(x, number):
    return x.mul(1 - number).add(
        x.cos(), alpha=number * 2
    )  # the first is computed in the graph, the second is a constant there


def chosen_or_number(x, number):
    return torch.where(x > number, x, number)


def rounded(x, number):
    return x * round(number, 1)  # a method of a number, which PyTorch's own key does not take


def with_a_float(x, number):
    return x * number, number * 2


@pytest.mark.parametrize("function", [scaled_and_added, chosen_or_number, rounded, with_a_float])
def test_a_float_that_is_a_constant_in_the_graph(folder, function):
    """In a call of the same function, and in one that is compiled anew, as a learning rate is."""
    x = torch.randn(8)
    for number in (0.5, 0.25):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="bascule", dynamic=True, options={"on_error": "raise"})
        for factor in (1.0, 1.5, 0.75):
            torch.testing.assert_close(compiled(x, number * factor), function(x, number * factor))
    assert any("bypass" in reason for reason in counted())


def test_dropout_draws_the_same(folder):
    x, found = torch.randn(64, requires_grad=True), []
    for _ in range(2):
        torch.manual_seed(3)
        out = run(lambda x: torch.nn.functional.dropout(x, 0.5), x)
        found.append((out, *torch.autograd.grad(out.sum(), x)))
    assert counted()["hit"] == 1
    assert all(map(torch.equal, *found))
    assert torch.equal(found[1][0] != 0, found[1][1] != 0)


def test_a_module_with_tied_weights_and_buffers(folder):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(7, 8), torch.nn.Linear(8, 7, bias=False)
            self.head.weight = self.embedding.weight
            self.norm = torch.nn.BatchNorm1d(8)

        def forward(self, i):
            return self.head(self.norm(self.embedding(i)))

    found = []
    for compiled in (True, True, False):
        torch.manual_seed(1)
        model, i = Tied(), torch.tensor([1, 3, 3, 6])
        out = run(model, i) if compiled else model(i)
        out.square().sum().backward()
        found.append((out, model.embedding.weight.grad, model.norm.running_mean))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    assert all(map(torch.equal, found[0], found[1]))
    torch.testing.assert_close(found[1], found[2], rtol=1e-5, atol=1e-4)  # gradients of up to 48


def test_a_subclass_of_torchs_own(folder):
    def doubled(x):
        return torch.sigmoid(x) * 2

    for _ in range(2):
        x = TwoTensor(torch.randn(3), torch.randn(3))
        got, wanted = run(doubled, x), doubled(x)
        torch.testing.assert_close((got.a, got.b), (wanted.a, wanted.b))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_compiled_autograd(folder):
    x, w = (t.requires_grad_() for t in inputs())
    wanted = torch.autograd.grad(gated(x, w).sum(), (x, w))
    for _ in range(2):
        with torch._dynamo.config.patch(compiled_autograd=True):
            run(lambda x, w: gated(x, w).sum(), x, w).backward()
        torch.testing.assert_close((x.grad, w.grad), wanted)
        x.grad = w.grad = None


def test_what_is_told_is_the_same(folder):
    x, w = (t.requires_grad_() for t in inputs())
    told = [bascule.explain(gated, x, w).graphs for _ in range(2)]
    assert counted()["hit"] == 1
    for first, second in zip(*told):
        assert "jit" in first.seconds and "import" not in second.seconds
        here = {"seconds": None, "name": None, "fx_passes": None}  # of this process: when, and which passes it took
        assert {**vars(first), **here} == {**vars(second), **here}
        assert {run.stage for run in second.fx_passes} <= {"dynamo"}  # nothing else is made
    assert [g.name.split("_")[1] for g in told[1]] == ["forward", "backward"]


def refuses_here(x, i):
    return torch.ops.aten.index_select(torch.multinomial(x, 1), 0, i) * 2


# The same two lines further down.


def refuses_there(x, i):
    return torch.ops.aten.index_select(torch.multinomial(x, 1), 0, i) * 2


def test_a_hit_names_the_lines_of_who_loads_it(folder):
    for function in (refuses_here, refuses_there):
        with pytest.raises(RuntimeError, match="multinomial") as caught:
            run(function, torch.zeros(3, 3), torch.tensor([0]))
        line = function.__code__.co_firstlineno + 1
        assert any(f"{os.path.basename(__file__)}:{line}" in note for note in caught.value.__notes__)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


# Under which settings


def under(change, back, loss):
    """The gradients of `loss`, whose backward runs after `change`."""
    change()
    try:
        loss.backward()
    finally:
        back()


def checkpointed(x, n):
    def part(x, n):
        return (x.sin() * torch.where(n > 2**24 + 0.5, 1.0, 3.0)).cos()

    return torch.utils.checkpoint.checkpoint(part, x, n, use_reentrant=False)


SETTINGS = {
    "default dtype": (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
    "deterministic": (  # also where PyTorch's own test tools have frozen these flags
        lambda: torch.backends.cudnn.set_flags(_deterministic=True, _fp32_precision=None),
        lambda: torch.backends.cudnn.set_flags(_deterministic=False, _fp32_precision=None),
    ),
    "fill": (
        lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
        lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
    ),
    "precision": (
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "attention": (
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        lambda: torch.backends.cuda.enable_flash_sdp(True),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_backward_compiled_under_other_settings_is_not_kept_under_those_of_its_forward(folder, name):
    n = torch.tensor([2**24, 2**24 + 1, 2**24 + 2])
    x = torch.ones(3, requires_grad=True)
    checkpointed(x, n).sum().backward()
    for _ in range(2):  # as in the forward, numbers are compared in the dtype that it was traced under
        y = torch.ones(3, requires_grad=True)
        under(*SETTINGS[name], run(checkpointed, y, n).sum())
        torch.testing.assert_close(y.grad, x.grad)
    why = "bypass: settings of PyTorch were changed between the forward and the compile of its backward"
    assert counted() == {"miss": 2, why: 2} and entries(folder, "traces") == []
    run(checkpointed, y, n).sum().backward()
    run(checkpointed, y, n).sum().backward()
    assert counted() == {"miss": 3, why: 2, "stored": 1, "hit": 1}


# Whose files count


SPOILED = {
    "of another key": lambda content: pack({**unpack(content)[0], "key": "0" * 64}, unpack(content)[1]),
    "no pickle": lambda content: pack(unpack(content)[0], {"result": b"none"}),
    "another pickle": lambda content: pack(unpack(content)[0], {"result": b"N."}),
}


@pytest.mark.parametrize("how", SPOILED)
def test_an_entry_of_ours_that_is_spoiled_is_not_used(folder, how):
    x, w = inputs()
    run(gated, x, w)
    (path,) = entries(folder, "traces")
    resigned(path, SPOILED[how](opened(path)))
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert any(name.startswith("refused") for name in counted()) and "hit" not in counted()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["hit"] == 1, "what was refused has been written anew"


@pytest.mark.parametrize("of", ["graphs", "traces"])
def test_files_that_others_can_write_are_not_used(folder, of):
    x, w = inputs()
    run(gated, x, w)
    for path in entries(folder, of):
        path.chmod(0o666)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert "hit" not in counted()


def test_a_graph_that_is_gone_is_compiled_again(folder):
    x, w = inputs()
    run(gated, x, w)
    for path in entries(folder, "graphs"):
        path.unlink()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"miss": 2, "stored": 2}
    run(gated, x, w)
    assert counted()["hit"] == 1


def test_a_full_disk_costs_nothing_but_the_entry(folder, monkeypatch):
    write = Store.write

    def full(self, key, content):
        if self.kind == "traces":
            raise Refused("writing failed: No space left on device")
        write(self, key, content)

    monkeypatch.setattr(Store, "write", full)
    x, w = inputs()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"miss": 1, "refused: writing failed: No space left on device": 1}


# Others


def test_lookups_of_other_backends_are_pytorchs(folder, monkeypatch):
    run(gated, *inputs())
    asked = []

    def key(*args, **kwargs):
        asked.append(args)
        raise torchs.BypassAOTAutogradCache("for the test")

    monkeypatch.setattr(torchs, "autograd_cache_key", key)

    def other(gm, example_inputs):
        compiler = SerializableAOTDispatchCompiler(OutputCode, lambda gm, _: gm.forward)
        return aot_module_simplified(gm, example_inputs, fw_compiler=compiler)

    torch._dynamo.reset()
    x, w = inputs()
    torch.testing.assert_close(torch.compile(gated, backend=other)(x, w), gated(x, w))
    assert len(asked) == 1 and counted() == {"miss": 1, "stored": 1}


def test_a_version_of_pytorch_that_was_not_checked(folder, monkeypatch):
    monkeypatch.setattr(versions, "running", lambda package: (9, 9))
    run(gated, *inputs())
    assert counted() == {"bypass: this PyTorch was not checked": 1}
    assert graph_entry.bypassed(bascule.Options()) is None
