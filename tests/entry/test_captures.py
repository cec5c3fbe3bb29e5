"""The garbage collector is paused from when Dynamo begins a capture of ours, and is as it was after."""

import gc

import pytest
import torch

SEEN: list[bool] = []


@torch._dynamo.allow_in_graph
def seen(x: torch.Tensor) -> torch.Tensor:
    """Runs while Dynamo captures, on fake tensors."""
    SEEN.append(gc.isenabled())
    return x + 1


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    SEEN.clear()
    yield
    torch._dynamo.reset()


def f(x: torch.Tensor) -> torch.Tensor:
    return seen(x) * 2


def captured(*backends: str) -> bool:
    """Whether the collector ran while `f` was captured for the last of `backends`."""
    compiled = [torch.compile(f, backend=each, dynamic=True) for each in backends]
    compiled[-1](torch.ones(5))
    assert gc.isenabled()
    return SEEN[0]


def test_a_capture_pauses_it_from_the_first_one_after_a_reset_that_is_told():
    torch.compile(f, backend="bascule")(torch.ones(3))  # registers, if a reset has forgotten it
    SEEN.clear()
    assert captured("bascule") is False


def test_other_compilers_keep_it():
    torch.compile(f, backend="bascule")(torch.ones(3))
    SEEN.clear()
    assert captured("bascule", "eager") is True


def test_a_capture_that_fails_resumes_it():
    torch.compile(f, backend="bascule")(torch.ones(3))

    def breaks(x):
        torch._dynamo.graph_break()
        return x

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(breaks, backend="bascule", fullgraph=True)(torch.ones(3))
    assert gc.isenabled()


def test_a_users_choice_to_have_it_off_stays():
    torch.compile(f, backend="bascule")(torch.ones(3))
    gc.disable()
    try:
        torch.compile(f, backend="bascule", dynamic=True)(torch.ones(5))
        assert not gc.isenabled()
    finally:
        gc.enable()
