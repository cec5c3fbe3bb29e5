"""The pass `to-triton`: kernels become Triton IR."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass

from .kernel import KernelFunction


@dataclass(frozen=True)
class ToTriton(Pass):
    """Takes the program stage; leaves a `tt.func` a kernel function, of the same name, and nothing else: the graph function goes.

    What a launch needs beside the text (`bascule.grid`, `bascule.warps`, `bascule.stages`) stands on the function; see `kernel.py`.
    Raises `UnsupportedError`, with the location, for a kernel that has no lowering yet.
    """

    name: ClassVar[str] = "to-triton"

    def run(self, module: ir.Module) -> None:
        with module.context as context, ir.Location.unknown():
            context.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
            old = functions(module)
            for function in old:
                if kernel_op(function) is not None:
                    KernelFunction(function).emit(module.body)
            for function in reversed(old):
                function.erase()
