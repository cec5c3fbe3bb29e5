"""Results in the memory of what a backward alone holds: saved tensors, and the zeros for outputs on which a loss does not depend."""

import subprocess
import sys
import threading

import numpy
import pytest
import torch
from bascule.runtime.memory.donated_inputs import over

from bascule.compat.versions import internals

pytestmark = pytest.mark.skipif(not internals().direct_calls, reason="another PyTorch")
ROWS, COLUMNS = 256, 2048  # two MiB of f32
OPTIONS = {"on_error": "raise", "cache": False}
# Whether autograd gives gradients to a Python function in a list and holds none itself; torch 2.11 gives them as arguments, which it holds.
LETS_GO = hasattr(torch.autograd.Function, "boxed_grads_call")


def loss_and_logits(x, w, labels):
    logits = x @ w
    return torch.nn.functional.cross_entropy(logits, labels), logits


def loss(x, w, labels):
    return loss_and_logits(x, w, labels)[0]


def inputs():
    return (
        torch.randn(ROWS, 16, requires_grad=True),
        torch.randn(16, COLUMNS, requires_grad=True),
        torch.randint(0, COLUMNS, (ROWS,)),
    )


def gradients(function, given, used):
    outs = function(*given)
    return torch.autograd.grad(sum(outs[i].square().sum() for i in used), given[:2])


@pytest.fixture
def taken(monkeypatch):
    """Whether each result that may lie over an input does. No memory is kept for results, which is held for that."""
    from bascule.runtime.memory import donated_inputs, result_block_pool

    told = []

    def noting(made, donated):
        def note(*arguments):
            told.append(donated)
            return made(*arguments)

        return note

    monkeypatch.setattr(donated_inputs, "view", noting(donated_inputs.view, True))
    monkeypatch.setattr(donated_inputs, "empty_cpu", noting(donated_inputs.empty_cpu, False))
    monkeypatch.setattr(result_block_pool, "LIMIT", 0)
    torch._dynamo.reset()
    return told


@pytest.fixture(params=[False, True], ids=["no hook", "hook"])
def frames_hook(request):
    """Whether the interpreter's frames go through TorchDynamo's hook all the while: they do as long as any thread is in a compiled function."""
    if not request.param:
        yield
        return
    entered, left = threading.Event(), threading.Event()

    def wait():
        torch._dynamo.graph_break()
        entered.set()
        left.wait()

    thread = threading.Thread(target=torch.compile(wait, backend="eager"))
    thread.start()
    assert entered.wait(60)
    yield
    left.set()
    thread.join()


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("amp", [False, True])
def test_a_loss_beside_its_logits(taken, frames_hook, target, amp):
    compiled = torch.compile(loss_and_logits, backend="bascule", options={**OPTIONS, "target": target})
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        for used in ((0,), (0,), (0, 1), (1,), (0,)):
            given = inputs()
            got, want = (gradients(function, given, used) for function in (compiled, loss_and_logits))
            for mine, theirs in zip(got, want, strict=True):
                # A sum's terms are rounded to bf16, where they may cancel.
                atol = 2**-8 * float(theirs.abs().max()) if amp else 2e-4
                torch.testing.assert_close(mine, theirs, rtol=2e-2 if amp else 1e-3, atol=atol)
    # The first goes through AOTAutograd; then zeros, and what was made for this call. Kernels of a GPU take no zeros: there the result may lie
    # in the logits alone, which are held here.
    assert taken == ([LETS_GO, True, LETS_GO, LETS_GO, True] if target == "cpu" else [False] * 5)


def backward(function, given, keep=False):
    """The gradients that `function` leaves in its inputs; with `keep`, those of a second time."""
    for x in given[:2]:
        x.grad = None
    result = function(*given)
    if keep:
        result.backward(retain_graph=True)
    result.backward()
    return [x.grad for x in given[:2]]


def test_what_only_the_backward_holds_is_written(taken, frames_hook):
    compiled = torch.compile(loss, backend="bascule", options=OPTIONS)
    for keep in (False, True, False):
        given = inputs()
        torch.testing.assert_close(backward(compiled, given, keep), backward(loss, given, keep), rtol=1e-3, atol=2e-4)
    assert taken == [True, False, True, True]  # the first of two backwards leaves it to the second


def test_what_others_hold_is_not_written(taken):
    compiled = torch.compile(loss_and_logits, backend="bascule", options=OPTIONS)
    for make in (torch.randn_like, torch.randn_like, lambda x: torch.from_numpy(numpy.ones(x.shape, numpy.float32))):
        given = inputs()
        total, logits = compiled(*given)
        before, mine = logits.detach().clone(), make(logits)
        kept = mine.clone()
        torch.autograd.backward([total, logits], [torch.ones(()), mine])
        assert torch.equal(mine, kept) and torch.equal(logits, before)
    assert taken == [False] * 3  # the first goes through AOTAutograd


def test_a_gradient_of_two_is_not_written(taken):
    """Autograd gives one gradient to both terms of a sum."""
    compiled = torch.compile(lambda x, y: (x * y).sin(), backend="bascule", options=OPTIONS)
    given = [torch.randn(ROWS, COLUMNS, requires_grad=True) for _ in range(4)]
    sums = [f(*given[:2]) + f(*given[2:]) for f in (compiled, lambda x, y: (x * y).sin())]
    got, want = (torch.autograd.grad(total.square().sum(), given) for total in sums)
    torch.testing.assert_close(got, want)


def test_saved_tensors_that_a_user_looks_at_are_not_written(taken):
    compiled = torch.compile(loss, backend="bascule", options=OPTIONS)
    result = compiled(*inputs())
    saved = [x for x in result.grad_fn.saved_tensors if x.shape == (ROWS, COLUMNS)]
    before = [x.clone() for x in saved]
    result.backward()
    assert saved and not any(taken)
    torch.testing.assert_close(saved, before, rtol=0, atol=0)


def test_who_else_holds_a_tensor(frames_hook):
    def lies_over(held, dtype=torch.float32):
        (only,) = held
        held.clear()
        address = only.data_ptr()
        return over(only, (32,), (1,), dtype).data_ptr() == address

    x = torch.zeros(8, 4)
    assert lies_over([torch.zeros(8, 4)])
    assert not lies_over([x])
    assert not lies_over([x[:]])
    assert not lies_over([torch.zeros(9, 4)[1:]])
    assert not lies_over([torch.zeros(8, 4)], dtype=torch.int32)
    assert not lies_over([torch.from_numpy(numpy.zeros((8, 4), numpy.float32))])


def test_what_alone_means_does_not_depend_on_where_it_is_found_out():
    donated_inputs = (
        "from bascule.runtime.memory import donated_inputs; import torch; x = torch.ones(8); y = x.data_ptr()"
    )
    fake = "from torch._subclasses.fake_tensor import FakeTensorMode\nwith FakeTensorMode(): import bascule.runtime.memory.donated_inputs"
    lies_over = "assert donated_inputs.over(x, (8,), (1,), x.dtype).data_ptr() == y"
    subprocess.run([sys.executable, "-c", f"{fake}\n{donated_inputs}\n{lies_over}"], check=True)
