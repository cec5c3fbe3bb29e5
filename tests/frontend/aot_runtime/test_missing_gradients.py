"""Gradients that autograd does not have: of what a model returns beside its loss, where the loss alone is differentiated."""

import pytest
import torch
from bascule.frontend.aot_runtime import tangents

ROWS, WIDTH, CLASSES = 64, 32, 517
WAYS = [(0,), (0, 1), (1,), (2,), (0, 1, 2), (1, 2), (0, 2)]


def outputs(x, w, y):
    logits = x @ w
    return torch.nn.functional.cross_entropy(logits, y), logits, logits.relu().sum(0)


def by_columns(x, w, y):
    """Logits whose memory runs along the rows."""
    logits = (w.T @ x.T).T
    return torch.nn.functional.cross_entropy(logits, y), logits, logits.relu().sum(0)


def to_operator(x, w, y):
    """Logits whose gradient an operator reads: it is a factor of both products of the backward."""
    logits = x @ w
    return x.square().mean(), logits, logits.relu().sum(0)


def gradients(function, which, dtype, rows=ROWS):
    generator = torch.Generator().manual_seed(rows)

    def drawn(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    x, w = drawn(rows, WIDTH).requires_grad_(), drawn(WIDTH, CLASSES).requires_grad_()
    y = torch.randint(0, CLASSES, (rows,), generator=generator)
    given = [drawn(), drawn(rows, CLASSES), drawn(CLASSES)]
    for _ in range(2):  # the first call is AOTAutograd's own
        x.grad = w.grad = None
        found = function(x, w, y)
        torch.autograd.backward([found[k] for k in which], [given[k] for k in which])
    return [torch.zeros_like(each) if each.grad is None else each.grad for each in (x, w)]


@pytest.fixture
def made(monkeypatch):
    """The shapes of the zeros that are given memory."""
    shapes, materialized = [], tangents._materialized
    monkeypatch.setattr(tangents, "_materialized", lambda x: (shapes.append(tuple(x.shape)), materialized(x))[1])
    return shapes


def compiled(function, target, **options):
    torch._dynamo.reset()
    given = {"target": target, "cache": False, "on_error": "raise"}
    return torch.compile(function, backend="bascule", options=given, **options)


@pytest.mark.parametrize("function", [outputs, by_columns, to_operator])
@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_any_may_be_missing(target, function, made):
    call = compiled(function, target)
    for which in WAYS:
        for found, exact in zip(
            gradients(call, which, torch.float32), gradients(function, which, torch.float64), strict=True
        ):
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6 * max(1, exact.abs().max().item()))


def test_kernels_need_no_zeros(made):
    call = compiled(outputs, "interpret")
    gradients(call, (0,), torch.float32)
    gradients(call, (0, 2), torch.float32)
    assert made == []
    gradients(compiled(outputs, "cpu"), (0,), torch.float32)
    assert (ROWS, CLASSES) in made


def test_sizes_that_change(made):
    call = compiled(outputs, "interpret", dynamic=True)
    for rows in (7, 48, 130):
        for which in ((0,), (1,), (0, 1)):
            for found, exact in zip(
                gradients(call, which, torch.float32, rows), gradients(outputs, which, torch.float64, rows), strict=True
            ):
                torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6 * max(1, exact.abs().max().item()))
    assert (7, CLASSES) not in made


def test_gradients_lie_in_logits_that_were_let_go_of(monkeypatch):
    """A user who holds them sees them as they were. On a CPU they lie in the zeros: `tests/runtime/memory/test_donated_inputs.py`."""
    from bascule.runtime.memory import donated_inputs

    views, view = [], donated_inputs.view
    monkeypatch.setattr(donated_inputs, "view", lambda x, *layout: (views.append(x.shape), view(x, *layout))[1])
    call = compiled(lambda x, w, y: outputs(x, w, y)[:2], "interpret")
    x, w = torch.randn(1024, WIDTH).requires_grad_(), torch.randn(WIDTH, CLASSES).requires_grad_()
    y = torch.randint(0, CLASSES, (1024,))
    found = []
    for keeps in (False, True, False):
        x.grad = w.grad = None
        loss, logits = call(x, w, y)
        before = logits.detach().clone()
        if not keeps:
            del logits
        views.clear()
        loss.backward()
        assert bool(views) != keeps
        found.append((x.grad, w.grad))
        assert not keeps or torch.equal(logits, before)
    assert all(torch.equal(a, b) for each in found[1:] for a, b in zip(found[0], each, strict=True))


def test_a_peak_has_no_zeros():
    """A promise counts the logits, which the user may hold, and no gradient of theirs."""
    import bascule

    w = torch.nn.Parameter(torch.randn(WIDTH, 4096))
    x, y = torch.randn(4096, WIDTH), torch.randint(0, 4096, (4096,))

    def loss_of(x, y):
        logits = x @ w
        return torch.nn.functional.cross_entropy(logits, y), logits

    size = 4 * 4096 * 4096
    peaks = {}
    for target in ("interpret", "cpu"):
        (step,) = bascule.memory(loss_of, x, y, options={"target": target}).steps
        peaks[target] = step
    assert peaks["interpret"].categories["outputs"] >= size
    assert peaks["interpret"].categories["gradients"] < size <= peaks["cpu"].categories["gradients"]


@pytest.mark.parametrize("backend", ["bascule_debug", "bascule_print"])
def test_backends_that_look_at_gradients_are_given_tensors(backend):
    torch._dynamo.reset()
    call = torch.compile(outputs, backend=backend)
    for found, exact in zip(gradients(call, (0,), torch.float32), gradients(outputs, (0,), torch.float64), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6 * exact.abs().max().item())
