"""When something fails: what is raised, what runs instead, what is written for the report."""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed._functional_collectives as fc
from bascule.dialect.passes import add

import bascule
from bascule.errors import FallbackWarning
from tests.compiler.raising_pass import Raises
from tests.generators.ranks import on_ranks

add(Raises)
BROKEN = "torch-to-bascule,test-raises"


def layer(x, w):
    return torch.relu(x @ w).sum(-1)


def inputs():
    return torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)


def test_a_failure_runs_operator_by_operator_after_one_warning():
    x, w = inputs()
    compiled = torch.compile(layer, backend="bascule", options={"pipeline": BROKEN})
    with torch.no_grad(), pytest.warns(FallbackWarning) as caught:
        out = compiled(x, w)
    torch.testing.assert_close(out, layer(x, w))
    assert len([w for w in caught if w.category is FallbackWarning]) == 1
    text = str(caught[0].message)
    assert "test-raises" in text and "the injected failure" in text
    assert re.search(r"\S+\.mlir", text)
    counted = bascule.counters()
    assert counted["graphs"] == {"fallback": 1}
    assert "test-raises" in next(iter(counted["fallbacks"]))


@pytest.mark.parametrize("on_error", ["aten", "inductor"])
def test_a_failure_keeps_gradients(on_error):
    x, w = inputs()
    compiled = torch.compile(layer, backend="bascule", options={"pipeline": BROKEN, "on_error": on_error})
    with pytest.warns(FallbackWarning):
        got = torch.autograd.grad((compiled(x, w) ** 2).sum(), (x, w))
    torch.testing.assert_close(got, torch.autograd.grad((layer(x, w) ** 2).sum(), (x, w)))


def test_on_error_raise_gives_a_reproducer_that_replays(tmp_path):
    compiled = torch.compile(
        layer, backend="bascule", options={"pipeline": BROKEN, "on_error": "raise", "dump": str(tmp_path)}
    )
    with pytest.raises(bascule.CompilerError) as caught:
        compiled(*inputs())
    error = caught.value
    first = Path(error.reproducer).read_text().splitlines()[0]
    assert first.startswith("// RUN: bascule-opt") and first.endswith("%s")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parent)}
    replay = subprocess.run(shlex.split(error.command), capture_output=True, text=True, env=environment, timeout=100)
    assert replay.returncode != 0
    assert "the injected failure" in replay.stderr
    assert "for your pass 'test-raises' (" in str(error) and "bug in Bascule" not in str(error)
    local = subprocess.run(shlex.split(error.local), capture_output=True, text=True, env=environment, timeout=100)
    assert local.returncode == 1 and "the injected failure" in local.stderr
    text = next(tmp_path.glob("graph*_forward.test-raises.mlir")).read_text()
    assert "bascule.compute" in text and 'pipeline: "builtin.module(test-raises)"' in text


def test_fallback_error_names_the_operator_and_the_users_line():
    def f(x):
        return torch.linalg.inv(x) + 1  # the line to be named

    line = next(
        i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "the line to be named" in text
    )
    compiled = torch.compile(f, backend="bascule", options={"fallback": "error"})
    with pytest.raises(bascule.UnsupportedError) as caught:
        compiled(torch.randn(3, 3))
    assert "linalg" in caught.value.operator
    assert f"{Path(__file__).name}:{line}" in str(caught.value)


def test_an_operator_without_a_rule_is_counted_with_its_reason():
    def f(x):
        return torch.linalg.inv(x) + 1

    x = torch.randn(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        torch.testing.assert_close(torch.compile(f, backend="bascule")(x), f(x))
    counted = bascule.counters()
    assert counted["graphs"] == {"compiled": 1}
    assert any("linalg_inv" in name for name in counted["aten"])


def test_an_unsupported_device_is_named(monkeypatch):
    monkeypatch.setattr("bascule.targets.placement.KINDS", ("cuda",))
    compiled = torch.compile(lambda x: x + 1, backend="bascule", options={"on_error": "raise"})
    with pytest.raises(bascule.UnsupportedError, match="on device 'cpu'"):
        compiled(torch.randn(3))


def test_an_unsupported_device_falls_back_by_default(monkeypatch):
    monkeypatch.setattr("bascule.targets.placement.KINDS", ("cuda",))
    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match="on device 'cpu'"):
        out = torch.compile(lambda x: x + 1, backend="bascule")(x)
    assert torch.equal(out, x + 1)


def test_complex_runs_in_aten():
    x = torch.randn(4, dtype=torch.complex64)
    compiled = torch.compile(lambda x: torch.abs(x * x + 1), backend="bascule", options={"on_error": "raise"})
    torch.testing.assert_close(compiled(x), torch.abs(x * x + 1))


def test_a_graph_whose_collectives_are_moved_does_not_run_otherwise_on_one_rank():
    """Its ATen operators would begin other collectives than the other ranks, which would wait."""
    assert on_ranks(1, _fails, BROKEN) == ["runs"]
    assert on_ranks(1, _fails, f"torch-to-bascule,bucket-collectives,{Raises.name}") == ["This rank cannot run"]


def _fails(rank, group, pipeline):
    add(Raises)

    def function(x):
        return fc.all_reduce(x, "sum", group) + fc.all_reduce(x * 2, "sum", group)

    torch._dynamo.reset()
    warnings.simplefilter("ignore")
    try:
        torch.compile(function, backend="bascule", options={"pipeline": pipeline})(torch.ones(3))
    except bascule.CompilerError as error:
        return error.__notes__[0][:20]
    return "runs"
