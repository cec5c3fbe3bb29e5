# RUN: env PYTHONPATH=%S bascule-opt %s.mlir --load-pass=pass_from_outside:RenameFunctions --rename-functions=suffix=_ours | filecheck %s
# RUN: env PYTHONPATH=%S bascule-opt %s.mlir --load-pass=pass_from_outside:RenameFunctions --pass-pipeline='builtin.module(rename-functions{suffix=_ours})' | filecheck %s
# RUN: env PYTHONPATH=%S not bascule-opt %s.mlir --load-pass=pass_from_outside:RenameFunctions --rename-functions=prefix=x 2>&1 | filecheck %s --check-prefix=OPTION
# RUN: not bascule-opt %s.mlir --load-pass=no.such:Pass 2>&1 | filecheck %s --check-prefix=LOAD
# CHECK: func.func @f_ours
# OPTION: pass 'rename-functions' has no option 'prefix'
# LOAD: cannot load the pass 'no.such:Pass'
"""A pass of a user's own, in about twenty lines: the one that docs/writing-a-pass.md builds."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.functions import functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class RenameFunctions(Pass):
    """Takes any module; leaves it with `suffix` at the end of each function's name."""

    name: ClassVar[str] = "rename-functions"
    suffix: str = "_new"

    def run(self, module: ir.Module) -> None:
        for function in functions(module):
            new = function.attributes["sym_name"].value + self.suffix
            function.attributes["sym_name"] = ir.StringAttr.get(new)
