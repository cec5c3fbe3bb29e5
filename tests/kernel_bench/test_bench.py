"""`bascule bench`: kernels of a dumped training step, timed on what the program gives them, and dumps that it does not take."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bascule.errors import UserError
from bascule.kernel_bench import bench as module
from bascule.kernel_bench import launches
from bascule.kernel_bench.bench import SCHEMA, Asked, bench
from bascule.kernel_bench.dumps import graphs_in
from bascule.kernel_bench.limits import Gpu, Work
from bascule.kernel_bench.timing import Memory, timed
from bascule.replay.saved_inputs import read_inputs
from bascule.targets.interpret import Interpret
from bascule.tools.main import main

ROWS, LONG, TABLE = 12, 48, 1000
CPU = torch.device("cpu")


def step(x, w, table, places, total):
    """Dynamic sizes, a gather, a scatter, an argument written in place."""
    h = torch.nn.functional.gelu(x * w)
    y = torch.nn.functional.layer_norm(h, (h.shape[-1],))
    s = torch.zeros_like(h).index_add(0, places % h.shape[0], y)
    total.add_(y.detach().sum(0))
    return (y * s).sum() + table[places].sum()


def grouped(a, b, c):
    return a.mul_(2.0), b.exp(), c.sin() + 1


def dump(folder: Path, function, *inputs, **options) -> Path:
    torch.compiler.reset()
    given = {"dump": str(folder), "cache": False, "on_error": "raise", **options}
    result = torch.compile(function, backend="bascule", options=given, dynamic=True)(*inputs)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.backward()
    return folder


def step_inputs():
    torch.manual_seed(0)
    x, w = (torch.randn(*size, requires_grad=True) for size in ((ROWS, LONG), (LONG,)))
    return x, w, torch.randn(TABLE, LONG), torch.randint(0, TABLE, (ROWS,)), torch.zeros(LONG)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory) -> Path:
    return dump(tmp_path_factory.mktemp("step"), step, *step_inputs())


@pytest.fixture(scope="module")
def told(dumped) -> dict:
    return bench(dumped, Asked(repeat=5, check=True))


def kernels(told: dict) -> list[dict]:
    return [kernel for graph in told["graphs"] for kernel in graph["kernels"]]


def test_every_kernel_has_its_times(dumped, told):
    assert told["schema"] == SCHEMA and len(told["graphs"]) == 2
    assert [k["name"] for k in kernels(told)] == [k["name"] for graph in graphs_in(dumped) for k in graph.kernels]
    for kernel in kernels(told):
        measured = kernel["measured"]
        assert 0 < measured["min_us"] <= measured["median_us"] == kernel["measured_us"]
        assert measured["launches"] == 5 and measured["limit_us"] > 0 and measured["ratio"] > 0


def test_the_forward_comes_first(told):
    assert [graph["graph"].rsplit("_", 1)[1] for graph in told["graphs"]] == ["forward", "backward"]


def test_launches_have_the_sizes_of_the_first_call(told):
    shapes = [shape for kernel in kernels(told) for shape in kernel["measured"]["shapes"]]
    assert [ROWS, LONG] in shapes
    assert all({ROWS, LONG} <= {*kernel["measured"]["symbols"]} for kernel in kernels(told))


def test_the_interpreter_agrees_with_each(told):
    assert [k["name"] for k in kernels(told) if not k["measured"]["check"]["match"]] == []


def test_a_gather_reads_rows_and_not_the_table(told):
    (gather,) = (k for k in kernels(told) if [TABLE, LONG] in k["measured"]["shapes"] and k["measured"]["bytes_read"])
    assert gather["measured"]["bytes_read"] < 4 * TABLE * LONG / 10


def test_a_launch_of_several_kernels(tmp_path):
    inputs = [torch.randn(size) for size in (100, 33, 1000)]
    (kernel,) = kernels(bench(dump(tmp_path, grouped, *inputs), Asked(repeat=2, check=True)))
    assert [shape for shape in ([100], [33], [1000]) if shape in kernel["measured"]["shapes"]] == [[100], [33], [1000]]
    assert kernel["measured"]["check"]["match"]
    assert kernel["measured"]["bytes_written"] >= 4 * 1133


def test_a_dump_without_inputs(tmp_path, capsys):
    folder = dump(tmp_path, step, *step_inputs(), dump_inputs="none")
    assert main(["bench", str(folder), "--repeat=2", "--check", "--threads=1"]) == 0
    assert "mismatch" not in capsys.readouterr().out


def test_the_launches_of_a_gpu(tmp_path, monkeypatch):
    """Triton's kernels, interpreted on a CPU: launched by plans, under the names of variants."""
    folder = dump(tmp_path, step, *step_inputs(), target="interpret")
    monkeypatch.setattr(module, "_target", lambda graph: (Interpret(), CPU))
    monkeypatch.setattr(module.Rates, "of", staticmethod(lambda *_: Rates("cuda")))
    told = bench(folder, Asked(repeat=1, check=True))
    assert kernels(told) and all(kernel["measured"]["check"]["match"] for kernel in kernels(told))


Rates = module.Rates.of
H200 = Gpu("NVIDIA H200", 4.917e12, 132 * 1.98e9, 90)


@pytest.mark.parametrize("told", [None, H200, replace(H200, memory=0.0)])
def test_limits_of_the_gpu_that_was_measured(told):
    assert Rates("cuda", gpu=told) == Rates("cuda")


def test_limits_of_another_gpu():
    measured, h100 = Rates("cuda"), Rates("cuda", gpu=Gpu("NVIDIA H100 80GB HBM3", 3.352e12, 132 * 1.98e9, 90))
    assert h100.machine == "h200 for NVIDIA H100 80GB HBM3, by clocks"
    assert h100.memory == pytest.approx(measured.memory * 3.352 / 4.8)
    assert h100.operations_16 == pytest.approx(measured.operations_16)


def test_the_limit_of_another_architecture_is_that_of_its_memory():
    other = Rates("cuda", gpu=Gpu("NVIDIA L4", 0.3e12, 58 * 2.04e9, 89))
    assert "operations not counted" in other.machine
    assert other.limit_us(Work(3000, 0, 10**9), [torch.float32]) == pytest.approx(0.012)


def test_the_files_and_the_table(dumped, tmp_path, capsys):
    name = graphs_in(dumped)[0].kernels[0]["name"]
    assert main(["bench", str(dumped), f"--kernel={name}", "--repeat=3", f"--json={tmp_path}/times.json"]) == 0
    table = capsys.readouterr().out
    (kernel,) = kernels(json.loads((tmp_path / "times.json").read_text()))
    assert kernel["name"] == name and kernel["measured"]["launches"] == 3
    assert name in table and "median" in table and f"{Path(__file__).name}:" in table


def test_memory_is_put_back_before_each_launch():
    memory = torch.zeros(8)
    first, second = memory[:6], memory[4:]  # they overlap
    held = Memory([first, second])
    assert [part.numel() for part in held.bytes] == [32]
    times = timed(lambda: memory.add_(1), held, CPU, 4)
    assert len(times.seconds) == 4
    assert torch.equal(memory, torch.ones(8))


def test_a_kernel_that_computes_something_else(tmp_path, monkeypatch, capsys):
    folder = dump(tmp_path, grouped, *(torch.randn(size) for size in (100, 33, 1000)))
    monkeypatch.setattr(launches, "function_of", lambda *_: lambda *words: None)
    assert main(["bench", str(folder), "--repeat=1", "--check"]) == 1
    out, error = capsys.readouterr()
    assert "mismatch (interpreted)" in out and "1 kernels differ" in error


def edited(pattern: str, edit):
    def change(folder: Path) -> None:
        (path, *_) = sorted(folder.glob(f"*/{pattern}"))
        path.write_text(edit(path.read_text()))

    return change


def manifest(**changes):
    def change(folder: Path) -> None:
        for path in folder.glob("*/manifest.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def values(edit):
    """The inputs of the first graph as tensors, edited."""

    def change(folder: Path) -> None:
        path = min(folder.glob("*/inputs.json"))
        torch.save(edit(read_inputs(str(path))), path.with_name("inputs.pt"))

    return change


def without(pattern: str):
    def change(folder: Path) -> None:
        for path in sorted(folder.glob(f"*/{pattern}")):
            path.unlink()

    return change


# What is wrong: the edit, further arguments, what the error tells
BAD = {
    "a program that is cut": (edited("*-plan-memory.mlir", lambda text: text[: len(text) // 2]), "-plan-memory.mlir: was edited"),
    "a stage that is edited": (edited("*-form-kernels.mlir", lambda text: text + "// mine\n"), "-form-kernels.mlir: was edited"),
    "a program that is gone": (without("*-plan-memory.mlir"), "-plan-memory.mlir: cannot be read"),
    "a manifest that is cut": (edited("manifest.json", lambda text: text[:100]), "manifest.json: cannot be read"),
    "a manifest of another kind": (edited("manifest.json", lambda text: "[]"), "manifest.json: cannot be read"),
    "a manifest of another version": (manifest(version=99), "manifest.json: is bascule/manifest 99"),
    "a manifest without kernels": (edited("manifest.json", lambda text: text.replace('"kernels"', '"others"')), "has no 'kernels'"),
    "no kernels": (manifest(kernels=[]), "has a kernel"),
    "no stages": (without("stages.json"), "stages.json: does not tell"),
    "stages that are cut": (edited("stages.json", lambda text: text[:100]), "stages.json: cannot be read"),
    "inputs that are cut": (edited("inputs.json", lambda text: text[:100]), "inputs.json: has no inputs"),
    "inputs of places out of range": (edited("inputs.json", lambda text: text.replace('"range": [', '"range": [99')), "inputs.json: was edited"),
    "inputs of nobody's": (edited("inputs.json", lambda text: '{"format": 1, "seed": 0, "arguments": []}'), "inputs.json: was edited"),
    "inputs that are no tensors": (values(lambda inputs: ["x"]), "inputs.pt: has something else"),
    "inputs too few": (values(lambda inputs: inputs[:-1]), "arguments, got"),
    "inputs of another size": (values(lambda inputs: [x[:3] if isinstance(x, torch.Tensor) and x.dim() else x for x in inputs]), "got sizes [3"),
    "inputs of another dtype": (values(lambda inputs: [x.double() if isinstance(x, torch.Tensor) else x for x in inputs]), "got torch.float64"),
    "kernels of a GPU": (manifest(target="cuda"), "there is none"),
    "kernels that are interpreted": (manifest(target="interpret"), "says nothing of time"),
    "no dump": (without("manifest.json"), "there is no dump of a graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there, which one row expects to be missing")
def test_a_bad_dump(dumped, tmp_path, capsys, name):
    change, told = BAD[name]
    folder = tmp_path / "dump"
    shutil.copytree(dumped, folder)
    change(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["bench", str(folder), f"--json={tmp_path}/times.json"]) == 1
    out, error = capsys.readouterr()
    assert out == "" and told in error and str(folder) in error and "Traceback" not in error
    assert not (tmp_path / "times.json").exists()
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kernel_that_is_not_there(dumped):
    with pytest.raises(UserError, match=r"--kernel: no graph of .* has a kernel 'nothing'"):
        bench(dumped, Asked(kernels=["nothing"]))
