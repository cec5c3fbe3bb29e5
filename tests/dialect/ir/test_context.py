"""Dialects of MLIR that a context does not load from the start."""

from bascule.dialect.ir import DIALECTS, context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass
from bascule.dialect.passes.pipeline import Pipeline


class MakesTwo(Pass):
    name = "makes-two"

    def run(self, module):
        with ir.InsertionPoint(module.body), ir.Location.unknown():
            ir.Operation.create(
                "emitc.constant", results=[ir.F32Type.get()], attributes={"value": ir.FloatAttr.get_f32(2.0)}
            )


def test_a_pass_from_outside_makes_operations_of_any():
    assert "emitc" not in DIALECTS
    with context() as ctx:
        module = ir.Module.parse("module {}")
        assert not ctx.is_dialect_loaded("emitc")
        Pipeline((MakesTwo(),)).run(module)
        assert [op.operation.name for op in module.body.operations] == ["emitc.constant"]


def test_what_is_parsed_is_loaded():
    with context() as ctx:
        ir.Module.parse('emitc.include <"math.h">')
        assert ctx.is_dialect_loaded("emitc")
