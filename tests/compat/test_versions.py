"""Which versions are taken, and what runs where one is newer than all that were checked."""

import subprocess
import sys
import warnings

import pytest

import bascule
from bascule.compat import versions


@pytest.fixture
def running(monkeypatch):
    """A function: pretends that another version of a package is installed."""

    def pretend(package, version):
        monkeypatch.setattr(versions, "running", lambda asked: version if asked == package else (3, 6))
        versions.check.cache_clear()

    yield pretend
    monkeypatch.undo()
    versions.check.cache_clear()


@pytest.mark.parametrize("version", [(2, 10), (1, 13)])
def test_one_that_is_too_old_is_refused(running, version):
    running("torch", version)
    with pytest.raises(RuntimeError, match=r"needs PyTorch 2\.11 or later, and this is PyTorch"):
        versions.check("torch")
    with pytest.raises(RuntimeError, match=r"needs PyTorch 2\.11"):
        bascule.compile_fx  # noqa: B018


def test_one_that_is_newer_is_warned_of_once(running):
    running("torch", (2, 15))
    with pytest.warns(
        UserWarning, match=r"checked on PyTorch 2\.11 to 2\.14, and this is PyTorch 2\.15; direct calls.*are off"
    ):
        versions.check("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.check("torch")


def test_a_newer_triton_is_warned_of(running):
    running("triton", (4, 0))
    with pytest.warns(UserWarning, match=r"checked on Triton 3\.6 to 3\.8, and this is Triton 4\.0$"):
        versions.check("triton")


@pytest.mark.parametrize("version", [(2, 11), (2, 14), (2, 15)])
def test_parts_are_on_where_they_were_checked_or_as_asked(running, version):
    running("torch", version)
    known = version < (2, 15)
    assert versions.internals() == versions.Internals(known, known, known)
    assert versions.internals(trace_cache=not known).trace_cache is not known
    assert versions.internals(direct_calls=False).direct_calls is False


# With a PyTorch in which what the parts lean on has gone.
UNKNOWN = """
import sys, warnings
for gone in ("graphs.autograd_cache", "operators.autograd_state"):
    sys.modules[f"bascule.compat.{gone}"] = None
for gone in ("aot_runtime.direct_inference", "aot_runtime.direct_training", "torch_patches.in_force", "aot.autograd_cache"):
    sys.modules[f"bascule.frontend.{gone}"] = None
import torch
from bascule.compat import versions
versions.running = lambda package: (2, 15) if package == "torch" else (3, 6)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    compiled = torch.compile(model, backend="bascule", options={"on_error": "raise"})
    for _ in range(3):
        x = torch.randn(4, 8)
        compiled(x).sin().sum().backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sin().sum().backward()
        for ours, eager in zip(found, model.parameters()):
            torch.testing.assert_close(ours, eager.grad, atol=1e-4, rtol=1e-4)
        model.zero_grad()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
assert len([w for w in told if "checked on PyTorch" in str(w.message)]) == 1, [str(w.message) for w in told]
import bascule
assert bascule.counters()["traces"] == {"bypass: this PyTorch was not checked": 2}, bascule.counters()["traces"]
print("trained")
"""


def test_an_unknown_pytorch_without_what_the_parts_lean_on():
    done = subprocess.run([sys.executable, "-c", UNKNOWN], capture_output=True, text=True)
    assert done.stdout.strip() == "trained", done.stderr


@pytest.mark.parametrize("part", ["direct_calls", "trace_cache", "trace_patches"])
def test_each_part_can_be_switched_off(part):
    import torch

    @torch.compile(backend="bascule", options={part: False, "on_error": "raise"})
    def f(x, w):
        return torch.softmax(x @ w, -1)

    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    for _ in range(3):
        wanted = torch.softmax(x @ w, -1)
        torch.testing.assert_close(f(x, w), wanted)
        got, expected = (torch.autograd.grad(y.square().sum(), w)[0] for y in (f(x, w), wanted))
        torch.testing.assert_close(got, expected)
