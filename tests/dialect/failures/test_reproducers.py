"""The file of a pass that fails: the IR before it, and that pass, in the form that `mlir-opt` reads and writes."""

import os

import pytest
from bascule.dialect.failures.reproducers import Reproducer, taken_from
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import registry
from bascule.dialect.tools import opt

from tests.dialect.failures.test_culprits import TEXT, Does, breaks

MLIRS = """
func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %0, %0 : i32
  return %1 : i32
}

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(func.func(canonicalize{max-iterations=10}))",
      disable_threading: true,
      verify_each: false
    }
  }
#-}
"""


ELEMENTS = """
func.func @f() -> tensor<3xi32> {
  %0 = arith.constant dense_resource<numbers> : tensor<3xi32>
  return %0 : tensor<3xi32>
}
"""
ENTRIES = {
    "dialect_resources": '{ builtin: { numbers: "0x04000000010000000200000003000000" } }',
    "external_resources": '{ mlir_reproducer: { pipeline: "builtin.module(cse)", verify_each: true }, other: { a: "}{" } }',
}


@pytest.fixture
def broken(monkeypatch):
    """A pass `breaks` that leaves IR which does not verify."""
    cls = type("Breaks", (Does,), {"name": "breaks", "run": lambda self, module: breaks(module)})
    monkeypatch.setitem(registry._added, "breaks", cls)


@pytest.mark.parametrize("pipeline", ["builtin.module(cse)", 'a{text="x y\\z"}'])
@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("load", [(), ("mine:A", "mine.more:B.C")])
@pytest.mark.parametrize("hooks", ["", "mine/it.py:Hooks"])
def test_what_is_written_is_read(pipeline, verify, load, hooks):
    reproducer = Reproducer(pipeline, verify, load, hooks)
    text, found = taken_from(reproducer.at_end_of(TEXT))
    assert found == reproducer
    with context():
        assert str(ir.Module.parse(text)) == str(ir.Module.parse(TEXT))


HOOKS = """
from bascule.dialect.steering.hooks import Hooks


class Refusing(Hooks):
    def may_fuse(self, fusion):
        raise RuntimeError("not this one")
"""
TWO = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %a = math.exp %e : f32
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %0[%i] : tensor<4xf32>
    %a = math.log %e : f32
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_what_is_no_file_stays(tmp_path):
    """A pipe stands for a device here, which a test is not to put at risk."""
    source, pipe = tmp_path / "f.mlir", tmp_path / "pipe"
    source.write_text(TEXT)
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert opt.main([str(source), "--cse", f"--mlir-pass-pipeline-crash-reproducer={pipe}"]) == 0
        assert pipe.is_fifo()
    finally:
        os.close(reading)


def test_decisions_of_hooks_are_taken_again(tmp_path, capsys):
    source, hooks, file = tmp_path / "two.mlir", tmp_path / "hooks.py", tmp_path / "local.mlir"
    source.write_text(TWO)
    hooks.write_text(HOOKS)
    flags = ["--inline-producers", f"--load-hooks={hooks}:Refusing", f"--mlir-pass-pipeline-crash-reproducer={file}"]
    assert opt.main([str(source), *flags]) == 1
    assert "RuntimeError: not this one" in capsys.readouterr().err
    assert opt.main([str(file), "--run-reproducer"]) == 1
    assert "RuntimeError: not this one" in capsys.readouterr().err


@pytest.mark.parametrize("order", [1, -1])
def test_the_elements_of_constants_stay(order):
    """`mlir-opt` has them in one block with the pipeline."""
    block = ",\n".join(f"  {name}: {ENTRIES[name]}" for name in list(ENTRIES)[::order])
    text, found = taken_from(f"{ELEMENTS}\n{{-#\n{block}\n#-}}\n")
    assert found is not None and found.pipeline == "builtin.module(cse)"
    with context():
        printed = str(ir.Module.parse(text))
    assert 'numbers: "0x04000000010000000200000003000000"' in printed and "other" not in printed
    again, _ = taken_from(found.at_end_of(printed))
    with context():
        assert str(ir.Module.parse(again)) == printed


def test_the_file_is_there_after_a_failure_alone(tmp_path, broken, capsys):
    source, file = tmp_path / "f.mlir", tmp_path / "local.mlir"
    source.write_text(TEXT)
    flag = f"--mlir-pass-pipeline-crash-reproducer={file}"
    assert opt.main([str(source), flag, "--fold-views", "--cse"]) == 0
    assert not file.exists()
    assert opt.main([str(source), flag, "--fold-views", "--breaks", "--cse"]) == 1
    told = capsys.readouterr()
    assert "'breaks' (" in told.err and "left IR that does not verify" in told.err
    found = taken_from(file.read_text())[1]
    assert found is not None and found.pipeline == "builtin.module(breaks)" and found.verify_each


def test_one_of_mlir_opt_runs(tmp_path, capsys):
    file = tmp_path / "mlirs.mlir"
    file.write_text(MLIRS)
    assert opt.main([str(file), "--run-reproducer"]) == 0
    told = capsys.readouterr()
    assert "arith.constant 2 : i32" in told.out and not told.err


@pytest.mark.parametrize("text", [TEXT, MLIRS.replace("pipeline:", "other:")])
def test_a_file_without_one_is_refused(tmp_path, capsys, text):
    file = tmp_path / "f.mlir"
    file.write_text(text)
    assert opt.main([str(file), "--run-reproducer"]) == 1
    told = capsys.readouterr()
    assert f"{file}: there is no reproducer's pipeline in the file" in told.err and not told.out
