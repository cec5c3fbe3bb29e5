"""`options={"target": "interpret"}`: whole functions through Triton's IR, interpreted on CPU tensors, against eager."""

import pytest
import torch
from bascule.lowering.triton.interpreter import InterpreterError
from bascule.lowering.triton.interpreter.plans import InterpretedKernels
from torch.nn import functional as F

import bascule
from tests.targets.target_cases import CASES, DYNAMIC, check, check_misaligned, gpt2, training_step

OPTIONS = {"target": "interpret", "on_error": "raise"}


def compiled(function, **kwargs):
    return torch.compile(function, backend="bascule", options=OPTIONS, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    function, inputs = CASES[name]
    check(name, compiled(function), inputs)
    assert bascule.counters()["kernels"]["launches"]


@pytest.mark.parametrize("name", DYNAMIC)
def test_of_dynamic_sizes(name):
    function, inputs = CASES[name]
    check(name, compiled(function, dynamic=True), inputs)


@pytest.mark.parametrize("begin", [0, 1, 3, 4])
def test_views_of_inputs_that_begin_anywhere(begin):
    """Kernels read an aligned copy; what is returned of the input is the input's, in the place where it lies."""

    def function(x):
        return x.chunk(2)[0], x[1:], x.view(-1, 2).t(), x.cumsum(0)

    memory = torch.randn(40)
    call = compiled(function, dynamic=True)
    for count in (30, 34):
        x = memory[begin : begin + count]
        for got, want in zip(call(x), function(x), strict=True):
            torch.testing.assert_close(got, want)
            assert got.storage_offset() == want.storage_offset()


def test_one_compile_serves_many_sizes():
    call = compiled(lambda x: torch.softmax(x, -1) * x.shape[0], dynamic=True)
    for rows, columns in ((2, 3), (64, 33), (5, 5000)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(call(x), torch.softmax(x, -1) * rows)
    assert bascule.counters()["graphs"] == {"compiled": 1}


def test_what_two_loops_of_one_walk_have_between_them_may_index_by_data():
    """Of a row of logarithms, an element that data names is read while sums over the row are still to be taken."""

    def function(logits, drawn):
        one = torch.distributions.OneHotCategorical(logits=logits, validate_args=False)
        several = torch.distributions.Multinomial(3, logits=logits, validate_args=False)
        return one.log_prob(drawn), several.log_prob(drawn * 3)

    logits, drawn = torch.randn(5, 4), torch.eye(4)[[0, 3, 1, 1, 2]]
    for got, want in zip(compiled(function)(logits, drawn), function(logits, drawn), strict=True):
        torch.testing.assert_close(got, want)


def test_a_row_that_a_later_walk_reads_is_not_written_over():
    """The masked scores are stored for the backward while the first maximum is found; the others are read again after."""

    def function(x, labels):
        scores = x @ x.T / 0.1
        itself = torch.eye(len(x), dtype=torch.bool)
        alike = (labels[:, None] == labels) & ~itself
        total = scores.masked_fill(itself, -torch.inf).logsumexp(1)
        return ((total[:, None] - scores) * alike).sum(1) / (1 + alike.sum(1))

    call = compiled(function, dynamic=True)
    for rows in (14, 9):
        x, labels = torch.randn(rows, 6, requires_grad=True), torch.randint(0, 3, (rows,))
        got, want = call(x, labels), function(x, labels)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in (got, want)))


def test_a_training_step():
    model, inputs = gpt2()
    want = training_step(model, model, inputs)
    got = training_step(model, compiled(model), inputs)
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-6)


def test_dropout_follows_the_seed():
    call = compiled(lambda x, y: F.dropout(x, 0.3) + F.dropout(y, 0.6))
    x, y = torch.ones(300, 40), torch.full((300, 40), 8.0)
    torch.manual_seed(5)
    first, second = call(x, y), call(x, y)
    torch.manual_seed(5)
    assert torch.equal(call(x, y), first) and not torch.equal(first, second)
    kept = torch.tensor([0.0, 1 / 0.7, 20.0, 20 + 1 / 0.7])
    assert torch.isclose(first.flatten()[:, None], kept).any(-1).all()
    share = torch.isclose(first, kept[3]).float().mean().item()
    assert abs(share - 0.7 * 0.4) < 0.02, "the two draw independently"


@pytest.mark.parametrize("shift", [1, 3])
def test_inputs_that_are_not_aligned(shift):
    check_misaligned(compiled, shift)


def test_the_module_says_what_each_run_launches():
    def function(x, w):
        return torch.softmax((torch.softmax(x, -1) @ w) * x, -1)

    explanation = bascule.explain(function, torch.randn(8, 8), torch.randn(8, 8), options=OPTIONS)
    (graph,) = explanation.graphs
    assert graph.target == "interpret"
    runs = [line for line in graph.wrapper.splitlines() if line.startswith("    run")]
    assert len(runs) == 2, "the matrix product parts them"
    for kernel in graph.kernels:
        assert f'("{kernel.name}", ' in graph.wrapper and f"    # {kernel.name}: " in graph.wrapper
    assert "in 2 runs, for the target 'interpret'" in str(explanation)


def test_a_dump_has_the_ir_of_each_kernel(tmp_path):
    call = torch.compile(lambda x: x.sum(-1), backend="bascule", options={**OPTIONS, "dump": str(tmp_path)})
    call(torch.randn(4, 8))
    (file,) = tmp_path.glob("*/*.ttir")
    assert "tt.func" in file.read_text()


def test_memory_that_nothing_wrote(monkeypatch):
    """The first kernel is not launched: what comes after a product reads the arena as it began."""
    whole, made = InterpretedKernels.plan, []

    def partly(self, launches):
        made.append(whole(self, launches if made else []))
        return made[-1]

    monkeypatch.setattr(InterpretedKernels, "plan", partly)
    call = compiled(lambda x: torch.softmax(torch.softmax(x, -1) @ x, 0).cumsum(0) @ x.exp())
    with pytest.raises(InterpreterError, match=r"test_interpret.py:\d+.*memory that nothing wrote"):
        call(torch.randn(8, 8))
    assert len(made) == 2


def test_an_optimizer_writes_its_state_in_place(tmp_path):
    """Parameters, averages and step counts: of a step count, what needs the old one runs before the new one is written over it."""
    torch.manual_seed(0)
    weights = [torch.randn(37, 50) for _ in range(16)]
    gradients = [torch.randn(37, 50) for _ in range(16)]

    def steps(prepare):
        parameters = [torch.nn.Parameter(w.clone()) for w in weights]
        optimizer = torch.optim.AdamW(parameters, lr=0.01, foreach=True)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
        optimizer.step()  # the state is there, and no step count is 0
        for group in optimizer.param_groups:
            group["capturable"] = prepare is not None
        step = optimizer.step if prepare is None else prepare(lambda: optimizer.step())
        step()
        step()
        state = [value for parameter in parameters for value in optimizer.state[parameter].values()]
        return [*(p.detach() for p in parameters), *state]

    options = {**OPTIONS, "dump": str(tmp_path), "cache": False}
    got = steps(lambda step: torch.compile(step, backend="bascule", options=options))
    for g, w in zip(got, steps(None), strict=True):
        torch.testing.assert_close(g, w)
    (wrapper,) = tmp_path.rglob("wrapper.py")
    assert ".copy_(" not in wrapper.read_text()
