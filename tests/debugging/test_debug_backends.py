"""The debugging backends, the graph dumper, the minifier and the logs."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from bascule.dialect.passes import add
from torch._dynamo import config
from torch._dynamo.utils import compilation_time_metrics, get_compilation_metrics
from torch._higher_order_ops import while_loop

import bascule
from bascule import pipelines
from bascule.debugging import drawing
from bascule.debugging.checked_interpreter import CheckedInterpreter, MetadataMismatch
from bascule.debugging.compare_results import differences
from bascule.entry import debug_backends
from tests.debugging.wrong_pass import Wrong

add(Wrong)
WRONG = ",".join(pipelines.DEFAULT).replace("canonicalize", "test-wrong,canonicalize")
HERE = Path(__file__).parent


def block(x, w):
    return torch.softmax(torch.tanh(x @ w) * 3, -1).cumsum(0), x.t()


def step(backend, **options):
    """Output and gradients of one training step."""
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 5, requires_grad=True)
    given = {"options": options} if options else {}
    out, view = torch.compile(block, backend=backend, **given)(x, w)
    return out, view, *torch.autograd.grad(out.square().sum() + view.sum(), (x, w))


def wanted():
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 5, requires_grad=True)
    out, view = block(x, w)
    return out, view, *torch.autograd.grad(out.square().sum() + view.sum(), (x, w))


BACKENDS = ["bascule_nop", "bascule_debug", "bascule_print", "bascule_draw", "bascule_dump"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_is_found_by_name_and_computes_what_eager_does(backend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.testing.assert_close(step(backend), wanted())


def test_nop_compiles_nothing():
    step("bascule_nop")
    assert bascule.counters()["graphs"] == {}


@pytest.mark.parametrize("stage", ["torch", "tensor", "kernel", "program"])
def test_debug_runs_the_stage_that_it_is_told(stage):
    torch.testing.assert_close(step("bascule_debug", stage=stage), wanted())


def test_debug_with_dynamic_sizes_and_mutation():
    def f(x, y):
        x.mul_(y)
        return x[1:] * y.shape[0]

    compiled = torch.compile(f, backend="bascule_debug", dynamic=True)
    for rows in (3, 5):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        mine = x.clone()
        torch.testing.assert_close(compiled(mine, y), f(x, y))
        torch.testing.assert_close(mine, x)


def sizes_from_data(x, w):
    y = torch.sin(x)[x[:, 0] > 0] * 2
    return y.sum(0) + torch.linalg.svdvals(w), y * y.shape[0]


def branches(x, w):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,)) @ w


def computed_sizes(x, w):
    return torch.nn.functional.pad(x, (0, max(x.shape[0] - 4, 1))) * x.shape[0] ** 0.5, w[: x.shape[0] // 2]


@pytest.fixture
def captured_whole():
    with config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


@pytest.mark.parametrize("function", [sizes_from_data, branches, computed_sizes])
@pytest.mark.parametrize("backend", BACKENDS)
def test_graphs_in_parts_and_computed_sizes(backend, function, captured_whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    compiled = torch.compile(function, backend=backend, dynamic=True)
    for rows in (6, 9):
        x, w = torch.randn(rows, 5, requires_grad=function is not branches), torch.randn(5, 5)
        found, wanted = compiled(x, w), function(x, w)
        torch.testing.assert_close(found, wanted)
        if x.requires_grad:
            gradients = [torch.autograd.grad(y[0].square().sum(), x) for y in (found, wanted)]
            torch.testing.assert_close(*gradients)
    shown = capsys.readouterr().out + " ".join(path.name for path in tmp_path.iterdir())
    told = {"sizes_from_data": "forward_part1", "branches": "inference_true_graph_0", "computed_sizes": "forward"}
    if backend in ("bascule_print", "bascule_draw"):
        assert told[function.__name__] in shown


def test_debug_names_the_part_that_is_wrong(monkeypatch, captured_whole):
    monkeypatch.setattr(pipelines, "DEFAULT", tuple(WRONG.split(",")))
    with pytest.raises(bascule.CompilerError, match=r"graph\d+_inference_part. at the stage 'program' computes other"):
        torch.compile(lambda x: torch.tanh(x[x > 0]) * 3, backend="bascule_debug")(torch.randn(9))


def test_a_dumped_graph_with_branches_runs_again(tmp_path):
    torch.compile(branches, backend="bascule_dump", options={"directory": str(tmp_path)})(
        torch.randn(4, 5), torch.randn(5, 5)
    )
    (inference,) = tmp_path.glob("*_inference.py")
    assert "the results are those of its operators" in python(inference)


def test_debug_names_the_stage_that_is_wrong(monkeypatch):
    monkeypatch.setattr(pipelines, "DEFAULT", tuple(WRONG.split(",")))
    with pytest.raises(bascule.CompilerError, match="at the stage 'program' computes other values"):
        step("bascule_debug")
    torch._dynamo.reset()
    step("bascule_debug", stage="tensor")  # what the pass is given is right


def test_debug_checks_nodes_against_their_metadata():
    gm = torch.fx.symbolic_trace(lambda x: (torch.relu(x).sum(),))
    node = next(node for node in gm.graph.nodes if node.target is torch.relu)
    for fake, says in ((torch.empty(3, dtype=torch.int64), "dtype"), (torch.empty(4), "sizes")):
        node.meta["val"] = fake
        with pytest.raises(MetadataMismatch, match=f"'relu'.* has {says}"):
            CheckedInterpreter(gm).run(torch.randn(3))
    node.meta["val"] = torch.empty(4, 3).t()
    with pytest.raises(MetadataMismatch, match="strides"):
        CheckedInterpreter(gm).run(torch.randn(3, 4))


@pytest.mark.parametrize("backend", ["bascule_debug", "bascule_print", "bascule_draw"])
def test_an_unknown_stage_is_refused(backend):
    with pytest.raises(bascule.UserError, match="has no value 'kernels'"):
        step(backend, stage="kernels")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_backend_bascule_takes_is_taken_and_checked(backend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = torch.randn(4, 5)
    for given in ({"mode": "reduce-overhead"}, {"options": {"numerics": "eager"}}):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(torch.tanh, backend=backend, **given)(x), torch.tanh(x))
    for wrong in ({"mode": "fast"}, {"options": {"numeric": "eager"}}, {"options": ["numerics"]}):
        torch._dynamo.reset()
        with pytest.raises(bascule.UserError, match=r"'fast'|'numeric'|a dictionary"):
            torch.compile(torch.tanh, backend=backend, **wrong)(x)


def test_data_is_yes_or_no(tmp_path):
    with pytest.raises(bascule.UserError, match="option 'data': takes bool, got 'no'"):
        options = {"directory": str(tmp_path / "graphs"), "data": "no"}
        torch.compile(torch.tanh, backend="bascule_dump", options=options)(torch.randn(4))
    assert not (tmp_path / "graphs").exists()


@pytest.mark.parametrize("backend", ["bascule_draw", "bascule_dump"])
@pytest.mark.parametrize("directory", [3, "/dev/null/x", ""])
def test_a_directory_that_is_none_is_refused(backend, directory):
    with pytest.raises(bascule.UserError, match="option 'directory'"):
        torch.compile(torch.tanh, backend=backend, options={"directory": directory})(torch.randn(4))


@pytest.mark.parametrize("stage", ["torch", "tensor", "kernel", "program"])
def test_debug_runs_loops(stage):
    def f(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.tanh(x) * 2), (torch.tensor(0), x))[1]

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="bascule_debug", options={"stage": stage})(x), f(x))


def test_print_shows_graphs_and_ir(capsys):
    step("bascule_print", stage="kernel")
    text = capsys.readouterr().out
    assert text.count("func.func @main") == 2
    for part in ("_forward\n", "_backward\n", "torch.ops.aten.mm.default", "bascule.kernel"):
        assert part in text


@pytest.fixture
def dot(tmp_path, monkeypatch):
    """A function: the only `dot` on PATH is a shell script with a body; None: there is none."""

    def made(body):
        folder = tmp_path / "bin"
        folder.mkdir()
        if body is not None:
            (folder / "dot").write_text(f"#!/bin/sh\n{body}\n")
            (folder / "dot").chmod(0o755)
        monkeypatch.setattr(drawing.shutil, "which", partial(shutil.which, path=str(folder)))
        return tmp_path / "drawn"

    return made


def labels(text):
    return re.findall(r'label="((?:[^"\\]|\\.)*)"', text)


@pytest.mark.parametrize("stage", ["program", "kernel", "test-wrong"])
def test_debug_runs_the_passes_of_the_option_pipeline(stage):
    x = torch.randn(4)
    compiled = torch.compile(lambda x: x * 3, backend="bascule_debug", options={"pipeline": WRONG, "stage": stage})
    where = "after the pass 'test-wrong'" if stage == "test-wrong" else f"at the stage '{stage}'"
    with pytest.raises(bascule.CompilerError, match=f"{where} computes other values") as caught:
        compiled(x)
    assert re.search(r"unless it is one in your pass 'test-wrong' \(\S*wrong_pass.py:\d+\)", str(caught.value))


@pytest.mark.parametrize("stage", ["tensor", "fold-views"])
def test_before_a_pass_that_is_wrong_nothing_is(stage):
    x = torch.randn(4)
    compiled = torch.compile(lambda x: x * 3, backend="bascule_debug", options={"pipeline": WRONG, "stage": stage})
    torch.testing.assert_close(compiled(x), x * 3)


def test_print_and_draw_follow_the_option_pipeline(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing.shutil, "which", lambda name: None)
    x, options = torch.randn(4), {"pipeline": WRONG, "stage": "test-wrong"}
    torch.compile(lambda x: x * 3, backend="bascule_print", options=options)(x)
    told = capsys.readouterr().out
    assert "arith.addf" in told and "arith.mulf" not in told
    torch.compile(lambda x: x * 3, backend="bascule_draw", options={**options, "directory": str(tmp_path)})(x)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("stage", ["no-such-pass", "plan-memory"])
def test_draw_refuses_a_stage_that_it_cannot_draw(stage):
    compiled = torch.compile(lambda x: x * 3, backend="bascule_draw", options={"pipeline": WRONG, "stage": stage})
    with pytest.raises(bascule.UserError, match=f"has no value '{stage}'"):
        compiled(torch.randn(4))


@pytest.mark.parametrize("stage", ["tensor", "kernel"])
def test_draw_shows_kernels_and_bytes(stage, dot, capsys):
    folder = dot(None)
    step("bascule_draw", directory=str(folder), stage=stage)
    files = sorted(folder.iterdir())
    assert [path.name.split("_")[1] for path in files] == ["backward.dot", "forward.dot"]
    assert capsys.readouterr().out.count("'dot', which makes SVG of it, is not installed") == 2
    text = files[1].read_text()
    lines = [line for label in labels(text) for line in label.split(r"\l")]
    assert "aten.mm.default" in lines and "outputs" in lines
    assert "80 B" in lines, "4 x 5 floats go from the product to what follows"
    assert any("tanh" in line if stage == "kernel" else line == "bascule.compute" for line in lines)
    boxes = re.findall(r"^  (box\d+) \[", text, re.MULTILINE)
    ends = re.findall(r"^  (box\d+) -> (box\d+) \[", text, re.MULTILINE)
    assert len(set(boxes)) == len(boxes) > 2 and {end for edge in ends for end in edge} == set(boxes)


def test_draw_renders_with_graphviz(dot, capsys):
    folder = dot('test "$1" = -Tsvg && cat')
    step("bascule_draw", directory=str(folder))
    files = sorted(folder.iterdir())
    assert [path.suffix for path in files] == [".svg", ".svg"]
    assert files[0].read_text().startswith("digraph")
    assert "DOT" not in capsys.readouterr().out


def test_draw_says_that_graphviz_failed(dot, capsys):
    folder = dot("exit 3")
    torch.testing.assert_close(step("bascule_draw", directory=str(folder)), wanted())
    assert {path.suffix for path in folder.iterdir()} == {".dot"}
    assert "non-zero exit status 3" in capsys.readouterr().out


def test_draw_escapes_its_text():
    assert drawing._quoted('a "b" \\') == r'"a \"b\" \\"'
    assert drawing._quoted("a\nb") == r'"a\lb\l"'


def test_draw_with_symbols(tmp_path):
    compiled = torch.compile(
        lambda x: torch.softmax(x, -1), backend="bascule_draw", dynamic=True, options={"directory": str(tmp_path)}
    )
    compiled(torch.randn(3, 4))
    (path,) = tmp_path.iterdir()
    assert "s0" in path.read_text()


def python(path, expect=0):
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    assert (done.returncode == 0) == (expect == 0), done.stderr
    return done.stdout + done.stderr


def test_another_order_of_additions_is_no_difference():
    x = torch.randn(100, 64) * 10
    assert not differences([x, 3, None, float("nan")], [x * (1 + 5e-6), 3, None, float("nan")])
    assert [text.split(":")[0] for text in differences([x, 3], [x * 1.001, 4])] == ["result 0", "result 1"]
    assert differences([x], [x.double()]) and differences([x], [])


@pytest.mark.parametrize("data", [False, True])
def test_dumped_graphs_run_again(data, tmp_path):
    step("bascule_dump", directory=str(tmp_path), data=data)
    names = sorted(path.name.split("_", 1)[1] for path in tmp_path.iterdir())
    tensors = ["backward.pt", "forward.pt"] if data else []
    assert names == sorted([*tensors, "backward.py", "captured.py", "forward.py", "joint.py"])
    if data:
        (saved,) = tmp_path.glob("*_forward.pt")
        assert any(x.abs().sum() > 0 for x in torch.load(saved).values() if isinstance(x, torch.Tensor))
    (backward,) = tmp_path.glob("*_backward.py")
    assert "the results are those of its operators" in python(backward)


def test_memory_efficient_fusion():
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 5, requires_grad=True)
    fused = bascule.memory_efficient_fusion(block, options={"on_error": "raise"})
    out, view = fused(x, w)
    got = (out, view, *torch.autograd.grad(out.square().sum() + view.sum(), (x, w)))
    torch.testing.assert_close(got, wanted())
    assert bascule.counters()["graphs"] == {"compiled": 2}


def test_memory_efficient_fusion_saves_less():
    def f(x, b):
        return torch.nn.functional.gelu(x + b, approximate="tanh") * torch.sigmoid(x)

    saved = []

    def note(tensor):
        saved[-1][tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x, b = torch.randn(64, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    gradients = []
    for function in (f, bascule.memory_efficient_fusion(f, options={"on_error": "raise"})):
        saved.append({})
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            out = function(x, b)
        gradients.append(torch.autograd.grad(out.square().sum(), (x, b)))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    eager, fused = (sum(sizes.values()) for sizes in saved)
    assert fused <= x.nbytes + b.nbytes < eager, "what is cheap to compute again is not kept"


def test_memory_efficient_fusion_of_a_module():
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    x = torch.randn(4, 6)
    fused = bascule.memory_efficient_fusion(module, options={"on_error": "raise"})
    torch.testing.assert_close(fused(x), module(x))
    fused(x).sum().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_the_minifier_leaves_a_small_file_that_still_fails(tmp_path, monkeypatch):
    def f(x):
        y = torch.sin(x) * 2 + 1
        for _ in range(4):
            y = torch.cos(y) + x
        return torch._trilinear(y, x, x, [], [], [], [0]) + y

    compiled = torch.compile(f, backend="bascule", options={"fallback": "error", "on_error": "raise"})
    with config.patch(repro_after="aot", debug_dir_root=str(tmp_path)), pytest.raises(bascule.UnsupportedError):
        compiled(torch.randn(3, 3) + 3 * torch.eye(3))
    (repro,) = tmp_path.rglob("repro.py")
    text = repro.read_text()
    assert "aten._trilinear" in text and "cos" not in text
    assert "aten._trilinear.default: no rule" in python(repro, expect=1)


def test_the_minifier_finds_wrong_values(tmp_path):
    def f(x, y):
        return torch.exp(torch.sin(x) + y) * torch.cos(y) - x

    compiled = torch.compile(f, backend="bascule", options={"pipeline": WRONG, "on_error": "raise"})
    with config.patch(repro_after="aot", repro_level=4, debug_dir_root=str(tmp_path)):
        compiled(torch.randn(5), torch.randn(5))
    (repro,) = tmp_path.rglob("repro.py")
    body = repro.read_text()
    assert "aten.mul.Tensor" in body and "aten.exp" not in body


LOGGED = """
import torch
f = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="bascule")
f(torch.randn(4, 5))
"""


def logged(tmp_path, **environment):
    done = subprocess.run(
        [sys.executable, "-c", LOGGED], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_torch_logs_bascule(tmp_path):
    text = logged(tmp_path, TORCH_LOGS="+bascule")
    assert "form-kernels took" in text and "graph0_inference" in text and "compiled" in text


def test_torch_logs_output_code(tmp_path):
    text = logged(tmp_path, TORCH_LOGS="output_code")
    assert "def call(args):" in text and "aten.amax.default" in text
    assert "def call(args):" not in logged(tmp_path)


# What `TORCH_LOGS` shows, name -> a part of its text.
SHOWN = {
    "pre_grad_graphs": "BEFORE PRE GRAD graph0",
    "post_grad_graphs": "AFTER POST GRAD graph0_inference",
    "ir_pre_fusion": '"bascule.compute"',
    "ir_post_fusion": "#bascule.schedule",
    "schedule": " over 4: aten.",
    "kernel_code": "func.func private @",
    "output_code": "def call(args):",
}


def test_torch_logs_have_what_inductors_users_look_for(tmp_path):
    text = logged(tmp_path, TORCH_LOGS=",".join(SHOWN))
    for name, part in SHOWN.items():
        lines = [line for line in text.splitlines() if f"[__{name}]" in line]
        assert any(part in line for line in lines), name


def test_torch_compile_debug_dumps_every_stage(tmp_path):
    logged(tmp_path, TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path))
    (folder,) = tmp_path.rglob("bascule/graph0_inference")
    names = {path.name.partition("-")[2] or path.name for path in folder.iterdir()}
    assert names >= {"import.mlir", "form-kernels.mlir", "plan-memory.mlir", "wrapper.py"}


def test_times_are_where_pytorch_keeps_them(tmp_path):
    before = {name: len(times) for name, times in compilation_time_metrics.items()}
    step("bascule")
    new = {name for name, times in compilation_time_metrics.items() if len(times) > before.get(name, 0)}
    assert new >= {f"bascule.{stage}" for stage in ("compile_forward", "compile_backward", "import", "jit", "wrapper")}
    metrics = get_compilation_metrics()[-2:]
    assert any(found.inductor_cumulative_compile_time_us for found in metrics)


def test_a_trace_has_our_stages(tmp_path):
    logged(tmp_path, TORCH_TRACE=str(tmp_path))
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    metadata = [json.loads(line[line.index("{") :]) for line in lines if '"artifact"' in line and line.startswith("V")]
    names = {entry["artifact"]["name"] for entry in metadata if "artifact" in entry}
    stages = {f"bascule_graph0_inference_{stage}" for stage in ("tensor", "kernel", "program", "output_code")}
    assert stages <= names
    assert any(line.startswith("V") and '"inductor_post_grad_graph"' in line for line in lines)


def test_the_backends_are_described():
    for name in BACKENDS:
        assert getattr(debug_backends, name).__doc__
        assert name in debug_backends.__doc__
