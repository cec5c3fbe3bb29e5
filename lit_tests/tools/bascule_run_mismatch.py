# RUN: not bascule-run %p/bascule-run.mlir --pipeline=no-such-pass 2>&1 | filecheck %s --check-prefix=PASS
# RUN: not bascule-run %p/bascule-run.mlir --shapes t=4 2>&1 | filecheck %s --check-prefix=SYMBOL
# RUN: not bascule-run %p/bascule-run.mlir --function g 2>&1 | filecheck %s --check-prefix=FUNCTION
# RUN: not bascule-run %p/nothing.mlir 2>&1 | filecheck %s --check-prefix=FILE
# RUN: env PYTHONPATH=%p not bascule-run %p/bascule-run.mlir --load-pass=bascule_run_mismatch:OffByOne --pipeline=off-by-one | filecheck %s --check-prefix=MISMATCH
# RUN: env PYTHONPATH=%p not bascule-run %p/bascule-run.mlir --load-pass=bascule_run_mismatch:OffByOne --pipeline=cse,off-by-one,form-kernels --bisect | filecheck %s --check-prefix=BISECT

# PASS: bascule-run: error: pipeline:1: 'no-such-pass' is not a pass of Bascule or of MLIR
# SYMBOL: has no symbol t
# SYMBOL-NEXT: hint: symbols: s0
# FUNCTION: there is no function 'g'
# FUNCTION-NEXT: hint: functions: main
# FILE: there is no file
# MISMATCH: mismatch (interpreted)
# MISMATCH-NEXT: result 0: 15 of 15 elements differ

# BISECT: mismatch after 'off-by-one', pass 2 of 3
# BISECT-NEXT: result 0: 15 of 15 elements differ
# BISECT-NEXT: made at {{.*}}bascule-run.mlir:18:
# BISECT: -{{ .*}}constant 0 : i64
# BISECT: +{{ .*}}constant 1 : i64

"""A pass that is wrong, and other reasons for bascule-run to fail."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class OffByOne(Pass):
    """Takes any module; leaves it with every integer constant 0 turned into 1."""

    name: ClassVar[str] = "off-by-one"

    def run(self, module: ir.Module) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "arith.constant" and str(op.attributes["value"]) == "0 : i64":
                op.attributes["value"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)
            return ir.WalkResult.ADVANCE

        with module.context:
            module.operation.walk(visit)
