"""Results in the memory of the zeros that a backward is given for outputs on which a loss does not depend."""

import pytest
import torch
from bascule.runtime.memory.donated_inputs import over

from bascule.compat.versions import internals

pytestmark = pytest.mark.skipif(not internals().direct_calls, reason="another PyTorch")
ROWS, COLUMNS = 256, 2048  # two MiB of f32


def step(x, w, labels):
    logits = x @ w
    return torch.nn.functional.cross_entropy(logits, labels), logits


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
    """Whether each result that may lie over an input does."""
    from bascule.runtime.memory import donated_inputs

    told = []

    def note(x, *layout):
        result = over(x, *layout)
        told.append(result.data_ptr() == x.data_ptr())
        return result

    monkeypatch.setattr(donated_inputs, "over", note)
    return told


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("amp", [False, True])
def test_a_loss_beside_its_logits(taken, target, amp):
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="bascule", options={"target": target, "on_error": "raise", "cache": False})
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        for used in ((0,), (0,), (0, 1), (1,), (0,)):
            given = inputs()
            got, want = (gradients(function, given, used) for function in (compiled, step))
            for mine, theirs in zip(got, want, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=2e-2 if amp else 1e-3, atol=1e-2 if amp else 2e-4)
    # The first goes through AOTAutograd; where the logits are used, their gradient is another's.
    assert taken == [False, True, False, False, True]


def test_gradients_that_a_caller_holds_are_not_written(taken):
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="bascule", options={"on_error": "raise", "cache": False})
    for _ in range(3):
        x, w, labels = inputs()
        loss, logits = compiled(x, w, labels)
        mine = torch.randn_like(logits)
        kept = mine.clone()
        torch.autograd.backward([loss, logits], [torch.ones(()), mine])
        assert torch.equal(mine, kept)
    assert not any(taken)


def test_other_dtypes_and_strangers_have_memory_of_their_own():
    x = torch.zeros(8, 4)
    assert over(x, (32,), (1,), torch.float32).data_ptr() != x.data_ptr()
    x.bascule_spare = True
    assert over(x, (32,), (1,), torch.float32).data_ptr() == x.data_ptr()
    assert over(x, (32,), (1,), torch.int32).dtype == torch.int32
