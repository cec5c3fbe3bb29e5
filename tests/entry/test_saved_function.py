"""`torch.compile(f, backend="bascule", fullgraph=True).aot_compile(...)`: saved, and loaded by a process that compiles nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bascule.runtime.packages.container import pack, unpack

import bascule
from bascule.entry.saved_function import SavedFunction
from bascule.errors import UserError

PROCESS = Path(__file__).with_name("saved_function_process.py")
pytestmark = pytest.mark.skipif(
    not hasattr(torch.compile(lambda x: x), "aot_compile"), reason="this PyTorch (2.11) compiles nothing ahead of time"
)


def compiled(function, *args, dynamic=None, options=None, **kwargs):
    settings = {"on_error": "raise", **(options or {})}
    whole = torch.compile(function, backend="bascule", fullgraph=True, dynamic=dynamic, options=settings)
    return whole.aot_compile((args, kwargs))


def saved(function, path):
    """Saved, and loaded in this process."""
    function.save_compiled_function(str(path))
    with open(path, "rb") as file:
        return torch.compiler.load_compiled_function(file)


def trained(x, w):
    return torch.softmax(torch.tanh(x @ w), -1).cumsum(0)


def in_parts(x, w):
    """With an operator that is called as it is, between two graphs."""
    return torch.linalg.inv((x @ w)[:4, :4].sin() + 8 * torch.eye(4)).exp().cumsum(0)


def inputs(gradients):
    torch.manual_seed(0)
    return torch.randn(5, 8), torch.randn(8, 8, requires_grad=gradients)


@pytest.mark.parametrize("function", [trained, in_parts])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_function_is_saved_and_loaded(function, gradients, tmp_path):
    x, w = inputs(gradients)
    made = compiled(function, x, w)
    for call in (made, saved(made, tmp_path / "f")):
        for _ in range(3):
            out = call(x, w)
            torch.testing.assert_close(out, function(x, w))
            if gradients:
                got, want = (torch.autograd.grad(f(x, w).square().sum(), w) for f in (call, function))
                torch.testing.assert_close(got, want)


def test_another_process_loads_it_without_a_compiler(tmp_path):
    x, w = inputs(True)
    files = [tmp_path / "trained", tmp_path / "in_parts"]
    for function, file in zip((trained, in_parts), files):
        compiled(function, x, w).save_compiled_function(str(file))
    environment = {**os.environ, "BASCULE_CACHE_DIR": ""}
    told = subprocess.run(
        [sys.executable, str(PROCESS), *map(str, files)],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    ).stdout
    told = json.loads(told)
    assert not told["compiler"]
    for function, (out, gradient) in zip((trained, in_parts), told["told"]):
        want = function(x, w)
        torch.testing.assert_close(torch.tensor(out), want)
        (wanted,) = torch.autograd.grad(want.square().sum(), w)
        torch.testing.assert_close(torch.tensor(gradient), wanted)


def test_sizes_may_be_dynamic(tmp_path):
    function = saved(compiled(trained, *inputs(False), dynamic=True), tmp_path / "f")
    w = torch.randn(8, 8)
    for rows in (3, 5, 70):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(function(x, w), trained(x, w))


def test_keywords_mutations_and_numbers(tmp_path):
    def function(x, *, by, scale=2.0):
        x.add_(by)
        return {"out": (x * scale).sum(-1), "x": x}

    x, by = torch.randn(3, 4), torch.randn(4)
    loaded = saved(compiled(function, x.clone(), by=by, scale=3.0), tmp_path / "f")
    mine, its = x.clone(), x.clone()
    torch.testing.assert_close(loaded(its, by=by, scale=3.0), function(mine, by=by, scale=3.0))
    torch.testing.assert_close(its, mine)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.linear(x).relu()


def test_a_module_keeps_its_weights_outside(tmp_path):
    model, x = Model(), torch.randn(5, 8)
    whole = torch.compile(model, backend="bascule", fullgraph=True, options={"on_error": "raise"})
    made = whole.forward.aot_compile(((x,), {}))
    torch.testing.assert_close(made(model, x), model(x))
    made.save_compiled_function(str(tmp_path / "f"))
    with open(tmp_path / "f", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    other = Model()
    torch.testing.assert_close(loaded(other, x), other(x))


def test_random_numbers_are_drawn_anew(tmp_path):
    function = saved(compiled(lambda x: torch.rand_like(x) + x, torch.zeros(100)), tmp_path / "f")
    first, second = function(torch.zeros(100)), function(torch.zeros(100))
    assert not torch.equal(first, second) and first.min() >= 0 and first.max() < 1


@pytest.mark.parametrize("disk", [False, True])
def test_no_cache_is_needed_and_none_is_touched(disk, tmp_path, monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "cache") if disk else "")
    x, w = inputs(False)
    loaded = saved(compiled(trained, x, w, options={"cache": False}), tmp_path / "f")
    torch.testing.assert_close(loaded(x, w), trained(x, w))
    assert not list(tmp_path.rglob("cache/*"))


def test_other_inputs_are_refused_by_their_guards(tmp_path):
    loaded = saved(compiled(trained, *inputs(False), dynamic=False), tmp_path / "f")
    with pytest.raises(RuntimeError, match="GuardManager check failed"):
        loaded(torch.randn(6, 8), torch.randn(8, 8))


def test_a_graph_that_is_called_as_usual_is_compiled_as_usual():
    x, w = inputs(False)
    whole = torch.compile(trained, backend="bascule", fullgraph=True, options={"on_error": "raise"})
    whole.aot_compile(((x, w), {}))
    torch.testing.assert_close(whole(x, w), trained(x, w))


# Refused


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"freezing": True}, "'freezing' is on"),
        ({"target": "interpret"}, "the target 'interpret'"),
        ({"verify": True}, "verification was asked for"),
    ],
)
def test_what_cannot_be_written_down_is_refused_with_the_reason(options, reason):
    x, w = inputs(False)
    with torch.no_grad(), pytest.raises(UserError, match=f"does not take this function: .*{reason}"):
        compiled(trained, x, w, options=options)


def content_of(function, *args):
    return compiled(function, *args)._artifacts.compiled_fn.content


def with_changes(content, **changes):
    description, blobs = unpack(content)
    return pack({**description, **changes}, blobs)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: with_changes(content, processor=["x86_64", "avx4096"]), "avx4096, which this one lacks"),
        (lambda content: with_changes(content, format=0), "another version"),
        (
            lambda content: with_changes(content, versions={"bascule": "0", "torch": "0", "python": "0"}),
            "another version",
        ),
        (lambda content: content[:-1], "cut short or changed"),
        (lambda content: content[:100] + b"\0" + content[101:], "cut short or changed"),
        (lambda content: b"", "not a package"),
    ],
)
def test_what_was_made_for_another_machine_or_is_damaged_is_refused(change, reason):
    content = content_of(trained, *inputs(False))
    with pytest.raises(UserError, match=f"cannot be loaded: .*{reason}(.|\n)*compile and save it again"):
        SavedFunction.deserialize_compile_artifacts(change(content))


def test_counters_tell_of_nothing_unexpected():
    content_of(trained, *inputs(True))
    assert bascule.counters()["cache"] == {"miss": 2, "stored": 2} and bascule.counters()["fallbacks"] == {}
