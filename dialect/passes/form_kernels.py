"""The pass `form-kernels`: computes, scans and scatters become kernel functions and calls of them."""

from dataclasses import dataclass
from typing import ClassVar

from ..analysis.kernel_functions import KernelFunctions
from ..ir.functions import graph_functions
from ..mlir import ir
from .base import Pass

MAKES_KERNEL = ("bascule.compute", "bascule.scan", "bascule.scatter")


@dataclass(frozen=True)
class FormKernels(Pass):
    """Takes graph functions of the tensor stage; leaves the kernel stage: every compute, scan and scatter stands in a kernel function."""

    name: ClassVar[str] = "form-kernels"

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                kernels = KernelFunctions(module, graph)
                for op in list(graph.regions[0].blocks[0].operations):
                    if op.operation.name in MAKES_KERNEL:
                        kernels.one(op.operation)
