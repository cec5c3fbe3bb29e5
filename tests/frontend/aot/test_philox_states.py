"""`functionalize_rng_ops`: random numbers are a function of a seed and an offset that the graph is given. PyTorch has it for GPUs; here a pair
of numbers stands for the state of a GPU's generator."""

import pytest
import torch
from torch._decomp import decompositions_for_rng
from torch._functorch import config
from torch._prims_common import CUDARngStateHelper
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import bascule


@pytest.fixture
def state(monkeypatch):
    """Seed and offset."""
    found = [7, 0]

    def get(mode=None):
        if mode is None:
            return tuple(map(torch.tensor, found))
        with mode:
            return tuple(map(torch.tensor, found))

    def advance(offset):
        found[1] = offset.item()

    monkeypatch.setattr(CUDARngStateHelper, "get_torch_state_as_tuple", staticmethod(get))
    monkeypatch.setattr(CUDARngStateHelper, "set_new_offset", staticmethod(advance))
    monkeypatch.setattr(decompositions_for_rng, "throw_on_non_cuda", lambda device: None)
    torch._dynamo.reset()
    with config.patch(functionalize_rng_ops=True):
        yield found


def compiled(function, **kwargs):
    return torch.compile(function, backend="bascule", options={"on_error": "raise", "fallback": "error"}, **kwargs)


def dropped(x):
    return F.dropout(torch.sin(x), 0.5)


def recomputed(x):
    return checkpoint(lambda x: F.dropout(torch.sin(x), 0.5).exp(), x, use_reentrant=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [dropped, recomputed])
def test_the_backward_draws_what_the_forward_drew(state, function, dynamic):
    call, masks = compiled(function, dynamic=dynamic), []
    for number in range(3):
        x = torch.randn(100, 40, requires_grad=True)
        y = call(x)
        y.sum().backward()
        s, c = torch.sin(x.detach()), torch.cos(x.detach())
        kept = y.detach() != (1.0 if function is recomputed else 0.0)
        wanted = torch.where(kept, 2 * c, 0.0) * (torch.exp(2 * s) if function is recomputed else 1.0)
        torch.testing.assert_close(x.grad, wanted, rtol=1e-4, atol=1e-5)
        assert abs(kept.float().mean().item() - 0.5) < 0.05
        assert state[1] == 4 * (number + 1)
        masks.append(kept)
    assert not any(torch.equal(a, b) for n, a in enumerate(masks) for b in masks[:n])


@pytest.mark.parametrize("process", ["one", "a second, which loads it"])
def test_numbers_are_a_function_of_the_state(state, tmp_path, monkeypatch, process):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))

    def noise(x):
        return torch.rand_like(x), torch.rand(100, 40, dtype=torch.float64, device=x.device)

    call, x = compiled(noise), torch.zeros(100, 40)
    first = call(x)
    if process != "one":
        torch._dynamo.reset()
        hits = bascule.counters()["traces"].get("hit", 0)
        call = compiled(noise)
    second = call(x)
    if process != "one":
        assert bascule.counters()["traces"]["hit"] == hits + 1
    assert state == [7, 16]
    state[1] = 0
    torch.testing.assert_close(call(x), first, rtol=0, atol=0)
    state[:] = [8, 0]
    draws = [*first, *second, *call(x)]
    assert first[1].dtype == torch.float64
    for n, a in enumerate(draws):
        assert a.min() >= 0 and a.max() < 1 and abs(a.mean().item() - 0.5) < 0.03
        assert all((a - b).abs().mean() > 0.2 for b in draws[:n])
