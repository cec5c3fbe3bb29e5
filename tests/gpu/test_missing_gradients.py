"""The gradient of logits that are returned beside a loss takes no memory on a GPU; nor does what is added to it, if they are let go of."""

import pytest
import torch

ROWS, WIDTH, CLASSES = 4096, 256, 8191
SIZE = 4 * ROWS * CLASSES


def outputs(x, w, y):
    logits = x @ w
    return torch.nn.functional.cross_entropy(logits, y), logits


def drawn():
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(ROWS, WIDTH, device="cuda", generator=generator).requires_grad_()
    w = (torch.randn(WIDTH, CLASSES, device="cuda", generator=generator) / 16).requires_grad_()
    return x, w, torch.randint(0, CLASSES, (ROWS,), device="cuda", generator=generator)


@pytest.mark.parametrize("cudagraphs", [False, True])
def test_losses_and_logits_are_differentiated(cudagraphs):
    torch._dynamo.reset()
    x, w, y = drawn()
    given = torch.randn(ROWS, CLASSES, device="cuda")
    options = {"on_error": "raise", "cache": False, "cudagraphs": cudagraphs}
    call = torch.compile(outputs, backend="bascule", options=options)
    for both in (False, False, False, True, True, False):
        x.grad = w.grad = None
        loss, logits = call(x, w, y)
        torch.autograd.backward([loss, logits] if both else [loss], [None, given] if both else [None])
        exact = [each.detach().double().requires_grad_() for each in (x, w)]
        loss, logits = outputs(*exact, y)
        torch.autograd.backward([loss, logits] if both else [loss], [None, given.double()] if both else [None])
        for one, other in zip((x, w), exact, strict=True):
            error = (one.grad - other.grad).abs().max() / other.grad.abs().max()
            assert error < 2e-3  # of TF32, where it is allowed


def test_memory_of_a_step():
    torch._dynamo.reset()
    x, w, y = drawn()
    call = torch.compile(outputs, backend="bascule", options={"on_error": "raise", "cache": False})

    def step(keeps):
        x.grad = w.grad = None
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss, logits = call(x, w, y)
        if not keeps:
            del logits
        loss.backward()
        return torch.cuda.max_memory_allocated() - before

    step(True), step(True)
    assert step(False) < 1.3 * SIZE  # logits, in which their gradient lies then
    assert step(True) < 2.3 * SIZE
