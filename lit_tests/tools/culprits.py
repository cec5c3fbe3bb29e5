# A failure names the pass, whose it is, and the op it was at; a process that dies names them too.
# RUN: cd %S && not bascule-opt culprits.mlir --load-pass=culprits:ErasesUsed --fold-views --erases-used 2>&1 | filecheck %s --check-prefix=ERASED
# ERASED: culprits.mlir:6:10: error: in your pass 'erases-used' (culprits.py:{{[0-9]+}}): UsedError: 'math.exp' is erased and 'bascule.yield' at culprits.mlir:7:5 uses it
# ERASED: op.erase()
# RUN: cd %S && not bascule-opt culprits.mlir --load-pass=culprits:Breaks --breaks --cse 2>&1 | filecheck %s --check-prefix=BROKEN
# BROKEN: culprits.mlir:3:8: error: 'bascule.compute' op range 0 is 5 but the result's size there is 4
# BROKEN: culprits.mlir:3:8: note: your pass 'breaks' (culprits.py:{{[0-9]+}}) left IR that does not verify
# RUN: cd %S && not bascule-opt culprits.mlir --load-pass=culprits:RaisesInWalk --raises-in-walk 2>&1 | filecheck %s --check-prefix=WALK
# WALK: culprits.mlir:6:10: error: in your pass 'raises-in-walk' (culprits.py:{{[0-9]+}}): KeyError: 'math.exp'
# RUN: cd %S && bash -c "bascule-opt culprits.mlir --load-pass=culprits:Dies --dies || true" 2>&1 | filecheck %s --check-prefix=DIES
# DIES: Fatal Python error: Segmentation fault
# DIES: culprits.py", line {{[0-9]+}} in run
# DIES: File "<culprits.mlir>", line {{[0-9]+}} in your pass 'dies' (culprits.py:{{[0-9]+}})
# RUN: cd %S && bash -c "bascule-opt culprits.mlir --load-pass=culprits:Dies --fold-views --dies --mlir-pass-pipeline-crash-reproducer=%t.mlir || true"
# RUN: filecheck %s --check-prefix=LEFT < %t.mlir
# LEFT: R{{UN}}: bascule-opt %s --run-reproducer
# LEFT: math.exp
# LEFT: pipeline: "builtin.module(dies)"
# LEFT: load_pass: "culprits:Dies"
# RUN: cd %S && not bascule-run culprits.mlir --load-pass=culprits:Breaks --pipeline=breaks 2>&1 | filecheck %s --check-prefix=EXECUTED
# EXECUTED: your pass 'breaks' (culprits.py:{{[0-9]+}}) left IR that does not verify
"""Passes that fail in a way each."""

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class ErasesUsed(Pass):
    """Erases an op whose result is used."""

    name: ClassVar[str] = "erases-used"

    def run(self, module: ir.Module) -> None:
        for op in ops_in(module.operation):
            if op.name == "math.exp":
                op.erase()


@dataclass(frozen=True)
class Breaks(Pass):
    """Leaves IR that does not verify."""

    name: ClassVar[str] = "breaks"

    def run(self, module: ir.Module) -> None:
        for op in ops_in(module.operation):
            if op.name == "bascule.compute":
                op.attributes["ranges"] = ir.AffineMapAttr.get(ir.AffineMap.get_constant(5))


@dataclass(frozen=True)
class RaisesInWalk(Pass):
    """Raises in the callback of a walk."""

    name: ClassVar[str] = "raises-in-walk"

    def run(self, module: ir.Module) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "math.exp":
                raise KeyError(op.name)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)


@dataclass(frozen=True)
class Dies(Pass):
    """Ends the process."""

    name: ClassVar[str] = "dies"

    def run(self, module: ir.Module) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)
