"""`bascule-run --bisect`: the pass that changed the numbers, with the element, the line and what it changed."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass, registry

from bascule.pipelines import DEFAULT
from bascule.tools import run

from .graphs import block


@dataclass(frozen=True)
class SpoilConstants(Pass):
    """Takes any module; leaves its 0.5 changed by a thousandth."""

    name: ClassVar[str] = "spoil-constants"

    def run(self, module):
        with module.context, ir.Location.unknown():
            for op in list(ops_in(module.operation)):
                if op.name == "arith.constant" and str(op.attributes["value"]).startswith("5.000000e-01"):
                    op.attributes["value"] = ir.FloatAttr.get(op.results[0].type, 0.5005)


@dataclass(frozen=True)
class SpoilIndices(Pass):
    """Takes any module; leaves reads that are out of range, at indices that no verifier knows."""

    name: ClassVar[str] = "spoil-indices"

    def run(self, module):
        with module.context, ir.Location.unknown():
            for op in [op for op in ops_in(module.operation) if op.name == "tensor.extract"]:
                with ir.InsertionPoint(op):
                    far = ir.Operation.create(
                        "arith.constant",
                        results=[ir.IndexType.get()],
                        attributes={"value": ir.IntegerAttr.get(ir.IndexType.get(), 500)},
                    )
                    sum_ = ir.Operation.create(
                        "arith.addi", results=[ir.IndexType.get()], operands=[far.results[0]] * 2
                    )
                op.operands[len(op.operands) - 1] = sum_.results[0]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_added", {cls.name: cls for cls in (SpoilConstants, SpoilIndices)})
    path = tmp_path / "block.mlir"
    path.write_text(block().operation.get_asm(enable_debug_info=True))
    return str(path)


def with_pass(name: str, before: str) -> str:
    passes = [*DEFAULT]
    passes.insert(passes.index(before), name)
    return ",".join(passes)


@pytest.mark.parametrize("before", ["fold-views", "form-kernels", "plan-memory"])
def test_the_first_wrong_pass_is_named(file, capsys, before):
    passes = with_pass("spoil-constants", before)
    assert run.main([file, "--bisect", f"--pipeline={passes}"]) == 1
    told = capsys.readouterr().out
    position = passes.split(",").index("spoil-constants") + 1
    first, element, made, *diff = told.splitlines()
    assert first == f"mismatch after 'spoil-constants', pass {position} of {len(DEFAULT) + 1}"
    assert "elements differ, most at [" in element
    assert "made at" in made and "graphs.py:" in made
    changed = [line for line in diff if line[:1] in "+-"][2:]
    assert changed and all("arith.constant" in line for line in changed)


def test_ir_that_cannot_be_run_any_more_differs(file, capsys):
    assert run.main([file, "--bisect", f"--pipeline={with_pass('spoil-indices', 'fold-views')}"]) == 1
    told = capsys.readouterr().out
    assert told.startswith("mismatch after 'spoil-indices'")
    assert "cannot be run" in told and "reads out of range: index 1000" in told


def test_right_passes_match(file, capsys):
    assert run.main([file, "--bisect", "--pipeline=default"]) == 0
    assert capsys.readouterr().out == f"match (interpreted) after each of {len(DEFAULT)} passes\n"


def test_without_a_pipeline_there_is_nothing_to_bisect(file, capsys):
    assert run.main([file, "--bisect"]) == 1
    assert "--bisect: there are no passes" in capsys.readouterr().err
