"""CUDA graphs on a GPU: what is replayed is what eager computes, over steps with other inputs each."""

import warnings

import pytest
import torch
from bascule.runtime.cudagraphs import cudagraph_trees
from torch._dynamo import compiled_autograd
from torch.nn import functional as F

import bascule
from bascule.errors import ReplayWarning
from bascule.reporting.counters import reset_counters
from tests.targets.target_cases import gpt2, training_step

STEPS = 5  # the first warms up, the second records, the others replay


@pytest.fixture(autouse=True)
def no_surprises():
    """A graph that is not replayed, or an output that lives too long, fails the test."""
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReplayWarning)
        yield


def compiled(function, **kwargs):
    options = {"cudagraphs": True, "on_error": "raise", **kwargs.pop("options", {})}
    return torch.compile(function, backend="bascule", options=options, **kwargs)


def randn(*sizes, **kwargs):
    return torch.randn(*sizes, device="cuda", **kwargs)


def recordings():
    return bascule.counters()["cudagraphs"].get("recordings", 0)


def test_other_inputs_at_each_call():
    def f(x, w):
        return torch.softmax(x @ w, -1) * 2, x.sum(0)

    call, w = compiled(f), randn(64, 64)
    for _ in range(STEPS):
        x = randn(32, 64)
        for got, want in zip(call(x, w), f(x, w), strict=True):
            torch.testing.assert_close(got, want)
    assert recordings() == 1 and bascule.counters()["cudagraphs"]["graphs"] == 1


def test_inputs_that_are_expanded_or_not_aligned():
    call = compiled(lambda x, y: torch.sin(x) + y)
    for _ in range(STEPS):
        x, y = randn(1, 33).expand(8, 33), randn(8 * 33 + 1)[1:].view(8, 33)
        torch.testing.assert_close(call(x, y), torch.sin(x) + y)


def test_numbers_on_the_cpu():
    call, x = compiled(lambda x, s: x * s + 1), randn(40, 8)
    for number in range(STEPS):
        scale = torch.tensor(number - 1.5)
        torch.testing.assert_close(call(x, scale), x * scale + 1)
    assert recordings() == 1


class Block(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(48, 64), torch.nn.BatchNorm1d(64)
        self.second, self.dropout = torch.nn.Linear(64, 8), dropout

    def forward(self, x):
        return self.second(F.dropout(F.gelu(self.norm(self.first(x))), self.dropout, self.training))


def test_training_with_an_optimizer_and_running_statistics():
    model, other = Block().cuda(), Block().cuda()
    other.load_state_dict(model.state_dict())
    call = compiled(model)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (model, other)]
    for _ in range(8):
        x, target = randn(32, 48), randn(32, 8)
        losses = []
        for run, optimizer in ((call, optimizers[0]), (other, optimizers[1])):
            optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(run(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    for got, want in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-4)
    assert model.norm.num_batches_tracked.item() == 8
    assert bascule.counters()["cudagraphs"]["graphs"] == 2 and recordings() <= 4


def test_a_second_process_replays_what_it_loads(tmp_path, monkeypatch):
    """As in one: nothing is traced or compiled."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    for hits in (False, True):
        torch.compiler.reset()
        model = Block().cuda()
        call = compiled(model, dynamic=False)
        reset_counters()
        if hits:
            monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
        for _ in range(STEPS):
            x, results = randn(32, 48), []
            for function in (call, model):
                model.zero_grad(set_to_none=True)
                model.norm.reset_running_stats()
                out = function(x)
                out.square().sum().backward()
                results.append((out.detach().clone(), model.first.weight.grad.clone(), model.norm.running_var.clone()))
            torch.testing.assert_close(*results, rtol=2e-3, atol=2e-3)
        assert bascule.counters()["traces"] == ({"hit": 1} if hits else {"miss": 1, "stored": 1})
        assert bascule.counters()["cudagraphs"]["graphs"] == 2 and 2 <= recordings() <= 4


def test_a_compiled_optimizer():
    """Parameters and states stay in place and are written there; gradients are copied."""
    models = [torch.nn.Linear(32, 32).cuda() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.AdamW(model.parameters(), 0.01) for model in models]
    steps = [compiled(lambda: optimizers[0].step()), optimizers[1].step]
    for _ in range(STEPS + 2):
        x = randn(8, 32)
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad(set_to_none=True)
            model(x).square().sum().backward()
            step()
    for got, want in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert 1 <= recordings() <= 2


def test_a_language_model():
    model, inputs = gpt2()
    model, inputs = model.cuda(), {name: x.cuda() for name, x in inputs.items()}
    want, call = training_step(model, model, inputs), compiled(model)
    for _ in range(4):
        model.zero_grad(set_to_none=True)
        for w, g in zip(want, training_step(model, call, inputs), strict=True):
            torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-5)
    assert recordings() >= 2


def test_dropout_draws_anew_and_follows_the_seed():
    call, x = compiled(lambda x: F.dropout(x, 0.25)), torch.ones(1000, 1000, device="cuda")
    for _ in range(2):
        call(x)
    torch.manual_seed(5)
    first = call(x).clone()
    second = call(x).clone()
    torch.manual_seed(5)
    assert torch.equal(call(x), first) and not torch.equal(first, second)
    assert abs((second == 0).float().mean().item() - 0.25) < 0.005
    assert recordings() == 1


def test_dropout_of_the_backward_is_that_of_the_forward():
    def f(x):
        return F.dropout(torch.sin(x), 0.5)

    call = compiled(f)
    for _ in range(STEPS):
        x = randn(500, 40, requires_grad=True)
        y = call(x)
        kept = (y != 0).clone()
        y.sum().backward()
        torch.testing.assert_close(x.grad, torch.where(kept, 2 * torch.cos(x.detach()), 0.0))


def test_an_output_that_is_kept_is_an_error_and_a_clone_is_not():
    call = compiled(lambda x: torch.sin(x) * 2)
    for _ in range(2):
        call(randn(100))
    x = randn(100)
    kept = call(x)
    clone = kept.clone()
    call(randn(100))
    torch.testing.assert_close(clone, torch.sin(x) * 2)
    # As with Inductor: the recording before writes to the same place, or the tensor cannot be read any more.
    try:
        assert not torch.equal(kept, clone)
    except RuntimeError as error:
        assert "overwritten" in str(error)


def test_frozen_weights():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).cuda().eval()
    call = compiled(model, options={"freezing": True})
    with torch.no_grad():
        for _ in range(STEPS):
            x = randn(2, 3, 16, 16)
            torch.testing.assert_close(call(x), model(x), rtol=1e-3, atol=1e-3)  # cuDNN takes TF32
    assert recordings() == 1
    assert bascule.counters()["freezing"]["folded into convolutions"] == 4  # a difference, two products and a sum


def test_sizes_have_recordings_of_their_own_up_to_a_limit():
    call = compiled(lambda x: torch.softmax(x, -1) * x.shape[0], dynamic=True, options={"cudagraph_shapes": 3})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ReplayWarning)
        for _ in range(4):
            for rows in (3, 64, 17, 200, 5):
                x = randn(rows, 129)
                torch.testing.assert_close(call(x), torch.softmax(x, -1) * rows)
    assert recordings() == 3
    assert len([w for w in found if issubclass(w.category, ReplayWarning)]) == 1


def test_a_written_input_that_is_no_buffer_is_told_and_right():
    def f(state, x):
        state.add_(x)
        return state * 2

    call, state = compiled(f), torch.zeros(50, device="cuda")
    with pytest.warns(ReplayWarning, match="'state'"):
        call(state, torch.ones(50, device="cuda"))
    for _ in range(3):
        assert (call(state, torch.ones(50, device="cuda")) == state * 2).all()
    assert (state == 4).all() and recordings() == 0


def test_parts_around_operators_that_synchronise():
    def f(x, w):
        y = torch.linalg.svdvals(torch.sin(x)) * 2 + w
        return y / y.max().cpu().cuda()

    call, w = compiled(f), randn(16)
    for _ in range(STEPS):
        x = randn(16, 16)
        torch.testing.assert_close(call(x, w), f(x, w), rtol=1e-4, atol=1e-4)
    assert recordings() >= 2


class Counting(torch.nn.Module):
    """Counts its calls on the CPU."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16, device="cuda")
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.count.add_(1)
        return torch.relu(self.linear(x)), self.count * 2


@pytest.mark.parametrize("replayed", [True, False])
def test_a_count_on_the_cpu(replayed):
    model = Counting()
    call = compiled(model, options={"cudagraphs": replayed})
    for number in range(1, STEPS + 1):
        x = randn(4, 16)
        with torch.no_grad():  # else a recording waits for the backward
            y, double = call(x)
        torch.testing.assert_close(y, torch.relu(model.linear(x)))
        assert model.count == number and double == 2 * number and double.device.type == "cpu"
    assert recordings() == replayed


def test_a_graph_break_between_two_recordings():
    def f(x):
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        return torch.softmax(y, -1) + y

    call = compiled(f)
    for _ in range(STEPS):
        x = randn(30, 70)
        torch.testing.assert_close(call(x), f(x))
    assert recordings() == 2


def test_compiled_autograd_moves_numbers_of_the_cpu():
    """PyTorch moves them to the GPU in the captured backward, which could not be recorded else."""
    scale = torch.tensor(1.5)
    for _ in range(STEPS):
        x = randn(30, 8, requires_grad=True)
        loss = (torch.sin(x) * scale).sum()
        with compiled_autograd._enable(lambda gm: compiled(gm)):
            loss.backward()
        torch.testing.assert_close(x.grad, torch.cos(x.detach()) * scale)
    assert recordings() == 1


def test_memory_does_not_grow():
    model = Block(0.1).cuda()
    call = compiled(model)

    def step():
        model.zero_grad(set_to_none=True)  # gradients lie in the pool too, and last as long as a step
        call(randn(64, 48)).sum().backward()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        step()
    assert torch.cuda.memory_allocated() <= before and recordings() <= 4


def test_one_large_tensor_lies_where_several_smaller_ones_were():
    """30 MiB after three times 11 MiB, which would lie in a segment each."""
    three = compiled(lambda x, y: (x + y, x - y, x * y))
    one = compiled(lambda x, y: x * y + y)
    before = cudagraph_trees.held_bytes(0)
    for call, rows in ((three, 2816), (one, 7680)) * STEPS:
        torch.compiler.cudagraph_mark_step_begin()
        call(randn(rows, 1), randn(1, 1024))
    torch.cuda.synchronize()
    assert 33 << 20 <= cudagraph_trees.held_bytes(0) - before < 50 << 20 and recordings() == 2


def test_ten_thousand_replays_keep_no_memory():
    call, w = compiled(lambda x, w: torch.softmax(x @ w, -1)), randn(32, 32)

    def calls(number):
        for _ in range(number):
            call(randn(16, 32), w)
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    before = calls(10)
    assert calls(10_000) <= before and recordings() == 1


def test_explained():
    text = str(bascule.explain(lambda x, w: torch.sin(x) @ w, randn(8, 8), randn(8, 8), options={"cudagraphs": True}))
    assert "CUDA graph: replayed" in text and "arena of" in text


def test_a_backward_may_run_for_the_first_time_after_its_forward_was_recorded():
    """PyTorch's memory-efficient attention has the seeds of its dropout on the host, and on the GPU where it is recorded. A gradient of v fits
    the result, which is linear in v, only if the same elements were dropped."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 4, 128, 128, device="cuda", dtype=torch.bfloat16)

    def run(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, dropout_p=0.5).float()

    options = {"on_error": "raise", "cudagraphs": True, "cache": False}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        call = torch.compile(run, backend="bascule", options=options)
        for number in range(6):
            torch.compiler.cudagraph_mark_step_begin()
            y = call(q, k, v)
            if number < 3:  # the forward alone is warmed up, recorded, replayed
                continue
            t = torch.randn_like(y)
            (gradient,) = torch.autograd.grad(y, [v], t)
            told, known = (gradient.double() * v.double()).sum(), (y.double() * t.double()).sum()
            assert abs(told - known) <= 0.02 * (y.double() * t.double()).norm()
