"""`bascule-run --compare`: IR of a stage before the program is compiled too, and compared with the interpreter."""

import pytest

from bascule.tools import run

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
    compiled = run.run_compiled
    monkeypatch.setattr(run, "run_compiled", lambda module, inputs: [out + 1 for out in compiled(module, inputs)])
    assert run.main([file, "--pipeline", "default", "--compare"]) == 1
    assert "mismatch (compiled)" in capsys.readouterr().out
