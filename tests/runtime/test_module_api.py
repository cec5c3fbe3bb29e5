"""Imports of generated modules: one module of the runtime, which loads only what they ask for."""

import ast
import re
import subprocess
import sys

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.passes import Pipeline
from bascule.frontend.conversion.rewriter import Asked, convert_module
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import Plans, to_python
from bascule.lowering.program.checks import Checks
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.runtime import module_api
from bascule.runtime.modules.split_graph import load_split
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.targets.placement import Placement

PASSES = "form-kernels,schedule-kernels{{target={0}}},order-program,bufferize-kernels,plan-memory{{target={0}}}"
NATIVE = ("current_stream",)  # need the native launcher


@torch.library.custom_op("bascule_module_api::scale", mutates_args={"x"})
def scale(x: torch.Tensor, factor: int) -> None:
    x.mul_(factor)


def function(x, i):
    return (x[i] @ x.t()).relu(), x.sort(0)[1]


def text_of(device):
    """The module of `function` on a device, "cpu" with C functions, "interpret", or a GPU."""
    inputs = torch.randn(4, 4), torch.tensor([1, 3, 2])
    module = import_graph(make_fx(function, tracing_mode="fake")(*inputs), inputs, context=context()).module
    if device == "cuda:0":
        Placement(torch.device(device)).annotate(module)
    convert_module(module, Asked())
    target = "cpu" if device == "cpu" else "cuda"
    Pipeline.parse(PASSES.format(target)).run(module)
    plans = None
    if device != "cpu":
        plans = Plans("cpu" if device == "interpret" else device, lower_kernels(module).launches, "graph")
    return to_python(module, plans, Checks(values=True, layouts=True))


@pytest.mark.parametrize("device", ["cpu", "interpret", "cuda:0"])
def test_modules_import_the_runtime_by_its_face_alone(device):
    imports = [node for node in ast.walk(ast.parse(text_of(device))) if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in imports} == {"bascule.runtime.module_api"}
    names = {alias.name for node in imports for alias in node.names}
    assert names <= set(module_api.NAMES) and {"check_finite", "check_layout", "laid_out"} <= names


def test_the_module_of_a_split_graph_imports_the_face_alone(monkeypatch):
    """One function of the runtime places what an operator writes views of, for modules and for graphs that PyTorch runs."""
    sources = []

    def kept(source, *args, **kwargs):
        sources.append(source)
        return load_split(source, *args, **kwargs)

    @torch.compile(backend="bascule")
    def written(x):
        scale(x[1], 3)
        scale(x[2], 2)
        return x.sin()

    monkeypatch.setattr("bascule.compiler.compile_split.load_split", kept)
    x = torch.randn(8, 9).as_strided((3, 4), (9, 2), 1)
    wanted = (x * torch.tensor([1, 3, 2])[:, None]).sin()
    torch.testing.assert_close(written(x), wanted)
    assert sources
    for source in sources:
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        assert {node.module for node in imports} == {"bascule.runtime.module_api"}
        assert {alias.name for node in imports for alias in node.names} == {"begun_at"} <= set(module_api.NAMES)


@pytest.mark.parametrize("name", [name for name in module_api.NAMES if name not in NATIVE])
def test_each_name_is_there(name):
    assert callable(getattr(module_api, name))


def test_a_name_of_the_launcher():
    pytest.importorskip("bascule.runtime._native")
    assert callable(module_api.current_stream)


def test_another_name():
    with pytest.raises(AttributeError, match=re.escape("'bascule.runtime.module_api' has no attribute 'nothing'")):
        _ = module_api.nothing


def test_a_program_on_a_cpu_loads_nothing_of_a_gpus():
    code = """if True:
        import sys
        import bascule.runtime
        assert "bascule.runtime.module_api" not in sys.modules
        from bascule.runtime.module_api import empty, empty_kept, give_arena, laid_out, take_arena, thread_count, view
        others = ("_native", "checks", "cuda", "device_memory", "functional", "kept_arenas", "unwritten")
        loaded = [name for name in others if f"bascule.runtime.{name}" in sys.modules]
        assert not loaded, loaded
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
