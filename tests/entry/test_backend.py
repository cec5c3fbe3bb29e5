"""The backend by name: modes, options, dynamic shapes, no import needed."""

import subprocess
import sys
import warnings

import pytest
import torch

import bascule
from bascule.options import make_options, options_for


def gated(x, w):
    return torch.softmax(torch.tanh(x) @ w, dim=-1) * x.shape[0]


def test_found_by_name_without_an_import():
    program = """
import sys, torch
out = torch.compile(lambda x: torch.sin(x) + 1, backend="bascule", options={"on_error": "raise"})(torch.ones(3))
assert torch.allclose(out, torch.sin(torch.ones(3)) + 1)
assert "torch._inductor.compile_fx" not in sys.modules, "importing Inductor costs a second"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_of_torch_compile_are_taken(mode):
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    torch.testing.assert_close(torch.compile(gated, backend="bascule", mode=mode)(x, w), gated(x, w))
    assert bascule.counters()["graphs"] == {"compiled": 1}


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"mode": "max-autotun"}, ["'max-autotun'", "did you mean 'max-autotune'", "reduce-overhead"]),
        ({"options": {"fall_back": "error"}}, ["'fall_back'", "did you mean 'fallback'", "on_error"]),
        ({"options": {"fallback": "eager"}}, ["option 'fallback'", "'eager'", "aten, error"]),
        ({"options": {"verify": "yes"}}, ["option 'verify'", "bool", "'yes'"]),
        ({"options": {"pipeline": "cse,form-kernel"}}, ["pipeline:5", "'form-kernel'", "form-kernels"]),
        ({"options": {"pipeline": "cse,(fold-views"}}, ["pipeline", "bracket"]),
        ({"options": {"pipeline": "torch-to-bascule"}}, ["before the program stage", "bufferize-kernels"]),
        ({"options": {"pipeline": ""}}, ["before the program stage", "!torch.vtensor"]),
        ({"options": {"dump": "/dev/null/x"}}, ["option 'dump'", "/dev/null/x"]),
        ({"options": {"dump": ""}}, ["option 'dump'", "a directory"]),
        ({"mode": ["default"]}, ["no mode ['default']", "reduce-overhead"]),
        ({"options": {"cudagraph_shapes": -1}}, ["option 'cudagraph_shapes'", "no number under 0", "-1"]),
        ({"options": {"cudagraph_bytes": -5}}, ["option 'cudagraph_bytes'", "no number under 0", "-5"]),
        ({"options": ["verify"]}, ["parameter 'options'", "a dictionary", "['verify']"]),
    ],
)
def test_what_is_wrong_is_named_with_what_is_known(kwargs, says):
    with pytest.raises(bascule.UserError) as caught:
        torch.compile(gated, backend="bascule", **kwargs)(torch.randn(4, 8), torch.randn(8, 8))
    for part in says:
        assert part in str(caught.value)
    assert bascule.counters()["graphs"] == {}


def test_what_is_wrong_is_not_blamed_on_pytorch():
    with pytest.raises(bascule.UserError) as caught:
        torch.compile(gated, backend="bascule", mode="fast")(torch.randn(4, 8), torch.randn(8, 8))
    assert "PyTorch" not in str(caught.value) and "TORCHDYNAMO" not in str(caught.value)


def test_options_of_inductor_are_followed_or_warned_of_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make_options(options={"triton.cudagraphs": True, "fallback-random": True, "epilogue_fusion": True})
        assert made == make_options(options={"cudagraphs": True, "random": "eager"})
        assert make_options(options={"triton.cudagraphs": False, "cudagraphs": True}).cudagraphs  # ours counts
    with pytest.warns(UserWarning, match="'coordinate_descent_tuning' is Inductor's") as caught:
        for _ in range(2):
            assert make_options(options={"coordinate_descent_tuning": True}) == make_options()
    assert len(caught) == 1
    with pytest.raises(bascule.UserError, match=r"option 'triton\.cudagraphs'"):
        make_options(options={"triton.cudagraphs": "on"})


def test_a_setting_of_inductor_counts_less_than_an_option():
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        assert not options_for(options={"triton.cudagraphs": False}).cudagraphs


def test_every_option_is_described():
    described = bascule.list_options()
    assert set(described) >= {"pipeline", "fallback", "on_error", "numerics", "target", "dump"}
    assert all("default:" in text for text in described.values())


def test_one_compile_serves_many_sizes():
    compiled = torch.compile(gated, backend="bascule", dynamic=True, options={"on_error": "raise"})
    w = torch.randn(8, 8)
    for rows in (2, 7, 64, 33):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x, w), gated(x, w))
    assert bascule.counters()["graphs"] == {"compiled": 1}


def test_dynamic_training_step():
    compiled = torch.compile(gated, backend="bascule", dynamic=True, options={"on_error": "raise"})
    w = torch.randn(8, 8, requires_grad=True)
    for rows in (2, 7, 64):
        x = torch.randn(rows, 8, requires_grad=True)
        weights = torch.randn(rows, 8)
        got = torch.autograd.grad((compiled(x, w) * weights).sum(), (x, w))
        expected = torch.autograd.grad((gated(x, w) * weights).sum(), (x, w))
        torch.testing.assert_close(got, expected)
    assert bascule.counters()["graphs"] == {"compiled": 2}


def test_sizes_zero_and_one():
    """Rows that are left after a slice become one and none, where the rest of the sizes is dynamic."""

    def function(x, w):
        rest = x[2:]
        return torch.softmax(rest * 2, 0) @ w, rest.t() @ rest, rest.mean(0)

    compiled = torch.compile(function, backend="bascule", dynamic=True, options={"on_error": "raise"})
    w = torch.randn(7, 5)
    for rows in (6, 3, 2, 1, 0):
        x = torch.randn(rows, 7, requires_grad=True)
        weights = [torch.randn_like(out) for out in function(x, w)]
        got, expected = compiled(x, w), function(x, w)
        torch.testing.assert_close(got, expected, equal_nan=True)
        gradients = (torch.autograd.grad(out, x, weights)[0] for out in (got, expected))
        torch.testing.assert_close(*gradients)


def test_a_dump_has_every_stage_and_the_wrapper(tmp_path):
    compiled = torch.compile(gated, backend="bascule", options={"dump": str(tmp_path), "on_error": "raise"})
    compiled(torch.randn(4, 8), torch.randn(8, 8))
    (directory,) = tmp_path.iterdir()
    names = sorted(path.name for path in directory.iterdir())
    assert names[0] == "00-import.mlir" and names[-1] == "wrapper.py"
    assert any("form-kernels" in name for name in names)


@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp"])
def test_long_running_totals_do_not_drift(name):
    """An element's rounding does not add to the next one's."""
    x = torch.rand(100_000) + 100
    got = torch.compile(lambda x: getattr(x, name)(0), backend="bascule", options={"on_error": "raise"})(x)
    torch.testing.assert_close(got, getattr(x.double(), name)(0).float(), rtol=3e-7, atol=0)
