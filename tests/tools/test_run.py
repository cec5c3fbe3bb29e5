"""`bascule-run`: its options at each stage, and how it ends for input that cannot be run."""

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest
from bascule.dialect.passes import Pass, registry

from bascule.tools import checking, run

from .graphs import block

TENSORS = """
func.func @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<4x5xf32>
    %b = arith.mulf %a, %a : f32
    "bascule.yield"(%b) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 5)>} : () -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "square.mlir"
    path.write_text(TENSORS)
    return str(path)


def test_compiled_code_is_compared(file, capsys):
    assert run.main([file, "--pipeline", "default", "--compare"]) == 0
    told = capsys.readouterr().out
    assert "match (interpreted)" in told and "match (compiled)" in told


def test_without_a_pipeline_the_stage_is_compiled_as_it_is(file, capsys):
    assert run.main([file, "--pipeline", "form-kernels,schedule-kernels,bufferize-kernels", "--compare"]) == 0
    assert "match (compiled)" in capsys.readouterr().out


def test_wrong_code_is_a_mismatch(file, capsys, monkeypatch):
    compiled = checking.run_compiled
    monkeypatch.setattr(checking, "run_compiled", lambda module, inputs: [out + 1 for out in compiled(module, inputs)])
    assert run.main([file, "--pipeline", "default", "--compare"]) == 1
    assert "mismatch (compiled)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "passes", ["", "form-kernels", "form-kernels,schedule-kernels,order-program,bufferize-kernels", "default"]
)
def test_every_stage_is_compiled(file, capsys, passes):
    assert run.main([file, "--compare", *(["--pipeline", passes] if passes else [])]) == 0
    assert "match (compiled): 2 tensors" in capsys.readouterr().out


def test_the_torch_stage_is_compiled(tmp_path, capsys):
    path = tmp_path / "block.mlir"
    path.write_text(block().operation.get_asm())
    assert run.main([str(path), "--compare"]) == 0
    assert "match (compiled)" in capsys.readouterr().out


def test_one_of_several_graphs_is_compiled_by_its_name(tmp_path, capsys):
    path = tmp_path / "two.mlir"
    path.write_text(TENSORS + TENSORS.replace("@main", "@other").replace("mulf", "addf"))
    assert run.main([str(path), "--compare", "--function=other"]) == 0
    assert "match (compiled)" in capsys.readouterr().out


def test_a_function_that_is_no_graph_is_not_compiled(tmp_path, capsys):
    path = tmp_path / "plain.mlir"
    path.write_text(TENSORS.replace(" attributes {bascule.graph}", ""))
    assert run.main([str(path), "--compare"]) == 1
    assert "@main is no graph function" in capsys.readouterr().err


def test_a_tolerance_is_relative_to_the_own_precision(file, capsys, monkeypatch):
    compiled = checking.run_compiled
    monkeypatch.setattr(checking, "run_compiled", lambda *given: [out * 1.25 for out in compiled(*given)])
    assert run.main([file, "--compare", "--tolerance=0.26"]) == 0
    assert run.main([file, "--compare", "--tolerance=0"]) == 1
    told = capsys.readouterr().out
    assert "20 of 20 elements differ" in told


def test_a_tolerance_of_zero_takes_what_is_the_same_in_each_bit(file, capsys):
    assert run.main([file, "--pipeline=default", "--compare", "--tolerance=0"]) == 0
    assert capsys.readouterr().out.count("max error 0.0e+00") == 2


@pytest.mark.parametrize("tolerance", ["-1", "nan", "x"])
def test_a_tolerance_that_is_none_is_refused(file, tolerance):
    with pytest.raises(SystemExit):
        run.main([file, f"--tolerance={tolerance}"])


BAD = {
    "integers": (TENSORS.replace("%x: tensor", "%n: i64, %x: tensor"), "2:1: argument 0 of @main, i64, is no tensor"),
    "strange floats": (TENSORS.replace("f32", "f8E4M3"), "2:1: argument 0 of @main, tensor<4x5xf8E4M3>"),
    "whole tensors": (
        "func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {\n  %0 = arith.addi %x, %x : tensor<4xi32>\n"
        "  return %0 : tensor<4xi32>\n}",
        "2:8: 'arith.addi' computes a whole tensor",
    ),
    "no functions": ("", "there is no function 'main'"),
    "no MLIR": ("bad(", ":1:1: custom op 'bad' is unknown"),
    "torch without torch-to-bascule": (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %i = torch.constant.int 1\n  return %x : tensor<4xf32>\n}",
        "2:8: 'torch.constant.int' is not an op",
    ),
}


@pytest.mark.parametrize("options", [[], ["--pipeline=default"], ["--compare"], ["--print"]], ids=str)
@pytest.mark.parametrize("name", BAD)
def test_input_that_cannot_be_run_is_an_error_with_a_place(tmp_path, capsys, name, options):
    path = tmp_path / "bad.mlir"
    text, message = BAD[name]
    path.write_text(text)
    assert run.main([str(path), *options]) == 1
    told = capsys.readouterr()
    assert message in told.err.replace('"', "")
    assert "Traceback" not in told.err and not told.out


def test_narrow_floats_run(tmp_path, capsys):
    path = tmp_path / "narrow.mlir"
    path.write_text(TENSORS.replace("f32", "f8E4M3FN"))
    assert run.main([str(path), "--pipeline=default"]) == 0
    assert "match (compiled)" in capsys.readouterr().out


@dataclass(frozen=True)
class Raises(Pass):
    """Takes any module, and fails."""

    name: ClassVar[str] = "raises"

    def run(self, module):
        raise KeyError("oh")


def test_a_pass_that_raises_is_named_with_its_line(file, capsys, monkeypatch):
    monkeypatch.setattr(registry, "_added", {"raises": Raises})
    assert run.main([file, "--pipeline=raises"]) == 1
    told = capsys.readouterr().err
    line = r"test_run\.py:\d+"
    assert re.search(rf"error: \S+:1:1: in your pass 'raises' \(\S*{line}\): {line}: KeyError: 'oh'", told)
    assert "Traceback" not in told
