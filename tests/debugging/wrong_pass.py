"""A pass that makes every multiplication an addition: what the debugging tools are to find."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class Wrong(Pass):
    """Replaces `arith.mulf` by `arith.addf`."""

    name: ClassVar[str] = "test-wrong"

    def run(self, module: ir.Module) -> None:
        found = []
        module.operation.walk(
            lambda op: (found.append(op.operation) if op.name == "arith.mulf" else None, ir.WalkResult.ADVANCE)[1]
        )
        for op in found:
            with ir.InsertionPoint(op), op.location:
                sum_ = ir.Operation.create("arith.addf", results=[op.results[0].type], operands=list(op.operands))
            op.results[0].replace_all_uses_with(sum_.result)
            op.erase()
