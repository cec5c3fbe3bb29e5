"""The pass `to-triton`: kernels become Triton IR."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.errors import UserError
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes.base import BUFFERS, Pass

from .kernels.dead_code import erase_dead_code
from .kernels.kernel import ALIGNED, NARROW, WIDE, KernelFunction


@dataclass(frozen=True)
class ToTriton(Pass):
    """Takes the program stage; leaves a `tt.func` a kernel function, of the same name, and nothing else: the graph function goes.

    What a launch needs beside the text (`bascule.grid`, `bascule.warps`, `bascule.stages`) stands on the function; see
    `lowering/triton/kernels/kernel.py`.
    Of a kernel of dynamic sizes, `sizes` chooses the variant: "any", "narrow" (indices of 32 bits) or "aligned" (and multiples of 16).
    Raises `UnsupportedError`, with the location, for a kernel that has no lowering yet.
    """

    name: ClassVar[str] = "to-triton"
    takes: ClassVar[str] = BUFFERS
    sizes: str = "any"

    def run(self, module: ir.Module) -> None:
        variants = {"any": WIDE, "narrow": NARROW, "aligned": ALIGNED}
        if self.sizes not in variants:
            known = ", ".join(variants)
            raise UserError(f"option 'sizes' cannot be '{self.sizes}'", location=self.name, hint=f"known: {known}")
        with module.context as context, ir.Location.unknown():
            context.allow_unregistered_dialects = True  # Triton's dialect lives in another build of MLIR
            old = functions(module)
            for function in old:
                if kernel_op(function) is not None:
                    kernel = KernelFunction(function)
                    wanted = variants[self.sizes]
                    kernel.emit(module.body, wanted if wanted in kernel.variants else WIDE)
            for function in reversed(old):
                function.erase()
            erase_dead_code(module)
