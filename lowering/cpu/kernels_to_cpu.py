"""The pass `kernels-to-cpu`: kernels become scf and vector code. What `compile_kernels` compiles, for reading and for tests."""

from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.errors import UserError
from bascule.dialect.mlir import ir
from bascule.dialect.passes.base import BUFFERS, Pass

from .jit.modules import lower_kernels
from .values.target import Target, host


@dataclass(frozen=True)
class KernelsToCpu(Pass):
    """Takes the program stage; leaves, for each kernel function `k`, an entry `_mlir_k` with the functions that it calls: `k__partN` runs
    tiles of segment N on the thread at hand, `k__tilesN` counts them, `k__threadN` is what a thread of several starts in.

    Graph functions are dropped: the wrapper calls the entries by their addresses.
    """

    name: ClassVar[str] = "kernels-to-cpu"
    takes: ClassVar[str] = BUFFERS
    vector_bits: int = 0  # 512, 256 or 128; 0: what the machine has

    def run(self, module: ir.Module) -> None:
        if self.vector_bits not in (0, 128, 256, 512):
            raise UserError(f"vectors of {self.vector_bits} bits", location=self.name, hint="known: 128, 256, 512")
        lowered, _, _ = lower_kernels(module, Target(self.vector_bits) if self.vector_bits else host())
        for op in list(module.body.operations):
            op.operation.erase()
        for op in list(lowered.body.operations):
            module.body.append(op.operation.detach_from_parent())
