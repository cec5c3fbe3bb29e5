# RUN: env PYTHONPATH=%p bascule-reduce %p/bascule_reduce.py.mlir --test=crash --load-pass=bascule_reduce:Dies --pipeline=fold-views,dies,form-kernels 2>&1 | filecheck %s --check-prefix=DIES
# RUN: env PYTHONPATH=%p bascule-reduce %p/bascule_reduce.py.mlir --test=crash --load-pass=bascule_reduce:Raises --pipeline=fold-views,raises,form-kernels 2>&1 | filecheck %s --check-prefix=RAISES
# RUN: env PYTHONPATH=%p bascule-reduce %p/bascule_reduce.py.mlir --test=mismatch --load-pass=bascule_reduce:Doubles --pipeline=fold-views,doubles,form-kernels 2>&1 | filecheck %s --check-prefix=DOUBLES

# DIES: dies of SIGSEGV: 14 operations are {{[5-7]}}, 3 passes are 1
# DIES-NEXT: // R{{UN}}: bascule-opt %s --pass-pipeline='dies' --load-pass=bascule_reduce:Dies
# DIES-NOT: math.log
# DIES: math.exp
# DIES-NOT: math.log
# RAISES: KeyError in your pass 'raises' ({{.*}}bascule_reduce.py:{{[0-9]+}}): 14 operations are {{[5-7]}}, 3 passes are 1
# RAISES-NEXT: // R{{UN}}: bascule-opt %s --pass-pipeline='raises' --load-pass=bascule_reduce:Raises
# DOUBLES: mismatch (interpreted): 14 operations are {{[5-7]}}, 3 passes are 1
# DOUBLES-NEXT: // R{{UN}}: bascule-run %s --pipeline='doubles' --load-pass=bascule_reduce:Doubles
# DOUBLES-NOT: math.log
# DOUBLES: math.exp

"""Passes that die, raise and change numbers at a `math.exp`."""

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


def exponentials(module: ir.Module) -> list[ir.Operation]:
    return [op for op in ops_in(module.operation) if op.name == "math.exp"]


@dataclass(frozen=True)
class Dies(Pass):
    """Takes any module; the process dies of one with a `math.exp`."""

    name: ClassVar[str] = "dies"

    def run(self, module: ir.Module) -> None:
        if exponentials(module):
            os.kill(os.getpid(), signal.SIGSEGV)


@dataclass(frozen=True)
class Raises(Pass):
    """Takes any module; raises for one with a `math.exp`."""

    name: ClassVar[str] = "raises"

    def run(self, module: ir.Module) -> None:
        if exponentials(module):
            raise KeyError("exp")


@dataclass(frozen=True)
class Doubles(Pass):
    """Takes any module; leaves 2**x for each e**x."""

    name: ClassVar[str] = "doubles"

    def run(self, module: ir.Module) -> None:
        for op in exponentials(module):
            with ir.InsertionPoint(op), op.location:
                new = ir.Operation.create("math.exp2", results=[op.results[0].type], operands=[op.operands[0]])
            op.results[0].replace_all_uses_with(new.results[0])
            op.erase()
