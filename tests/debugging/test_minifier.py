"""PyTorch's minifier around our compiler: what it leaves is a file that fails as the program did."""

import runpy
import warnings

import pytest
import torch
from bascule.dialect.passes import add
from torch._dynamo import config

import bascule
from bascule import pipelines
from bascule.entry.run_reproducer import loaded, traced
from tests.debugging.wrong_pass import Wrong

add(Wrong)
WRONG = ",".join(pipelines.DEFAULT).replace("canonicalize", "test-wrong,canonicalize")


@pytest.fixture
def minified(tmp_path, monkeypatch):
    """Calls a compiled function, and returns the files that were left."""
    monkeypatch.chdir(tmp_path)

    def call(function, *inputs, level=2, dynamic=None, **options):
        settings = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
        compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options=options)
        with (
            config.patch(repro_after="aot", repro_level=level, debug_dir_root=str(tmp_path), **settings),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", bascule.errors.FallbackWarning)
            try:
                results = compiled(*inputs)
                results = [x for x in (results if isinstance(results, tuple) else (results,)) if x.requires_grad]
                if results:
                    torch.autograd.backward(results, [torch.randn_like(x) for x in results])
            except bascule.BasculeError:
                pass
        return sorted(tmp_path.rglob("repro*.py"))

    return call


def run(path):
    runpy.run_path(str(path), run_name="__main__")


def refused(x):
    y = torch.cos(torch.sin(x) * 2 + 1)
    return torch._trilinear(y, x, x, [], [], [], [0]) + y


@pytest.mark.parametrize("on_error", ["aten", "raise"])
def test_a_refusal_whatever_becomes_of_the_program(minified, on_error):
    (file,) = minified(refused, torch.randn(3, 3), fallback="error", on_error=on_error)
    assert "aten.cos" not in file.read_text()
    with pytest.raises(bascule.UnsupportedError, match="_trilinear"):
        run(file)


def test_symbols_are_kept(minified):
    (file,) = minified(lambda x: torch.exp(x.cos() * 2), torch.randn(3, 4), level=4, dynamic=True, pipeline=WRONG)
    assert "aten.exp" not in file.read_text()
    _, inputs = traced(loaded(str(file)))
    assert any(isinstance(size, torch.SymInt) for x in inputs if isinstance(x, torch.Tensor) for size in x.shape)
    with pytest.raises(bascule.CompilerError, match="other values than its operators"):
        run(file)


def test_sizes_that_data_decides(minified):
    """Refused where no part may be compiled by itself."""
    (file,) = minified(lambda x: torch.sin(x)[x[:, 0] > 0] * 2, torch.randn(3, 3), fallback="error")
    assert "aten.sin" not in file.read_text()
    with pytest.raises(bascule.UnsupportedError, match="u0 is only known when the graph runs"):
        run(file)


def test_a_bug_in_the_compiler_behind_a_fallback(minified, monkeypatch):
    from bascule.compiler import compile_graph as driver

    whole = driver.to_python

    def fails(module, *args, **settings):
        if "math.tanh" in str(module):
            raise KeyError("the injected failure")
        return whole(module, *args, **settings)

    monkeypatch.setattr(driver, "to_python", fails)
    x = torch.randn(4, requires_grad=True)
    for file in minified(lambda x: torch.tanh(x.cos() * 2).exp() + x, x):  # forward and backward
        assert "aten.tanh" in file.read_text() and "aten.exp" not in file.read_text()
        with pytest.raises(bascule.CompilerError, match="the injected failure"):
            run(file)


def test_each_failing_graph_has_a_file(minified):
    def f(x, y):
        return torch.exp(torch.sin(x) + y) * torch.cos(y) - x

    x, y = torch.randn(5, requires_grad=True), torch.randn(5)
    files = minified(f, x, y, level=4, pipeline=WRONG)
    assert len(files) == 2  # forward, backward
    for file in files:
        with pytest.raises(bascule.CompilerError, match="other values than its operators"):
            run(file)


def test_written_inputs_are_compared(minified):
    def f(x, y):
        x.copy_(x * y)
        return y + 1

    (file,) = minified(f, torch.randn(5) + 3, torch.randn(5) + 3, level=4, pipeline=WRONG)
    with pytest.raises(bascule.CompilerError, match="other values than its operators"):
        run(file)


@pytest.mark.parametrize("level", [1, 3])
def test_levels_that_write_graphs_whole(minified, level):
    files = minified(refused, torch.randn(3, 3), level=level, fallback="error")
    assert "aten.cos" in files[0].read_text()


def test_nothing_is_written_where_nothing_fails(minified):
    assert minified(lambda x: x.sin() * 2, torch.randn(5), level=4) == []
