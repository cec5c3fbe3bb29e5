"""TTIR to machine code by Triton's own pipeline. The only module that imports `triton`; checked on 3.6. No GPU is needed."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bascule.dialect.mlir import ir

from .kernel import GRID, STAGES, WARPS

LAUNCH = (GRID, WARPS, STAGES)


@dataclass(frozen=True)
class TritonKernel:
    """A kernel as text for Triton: a module of one function. `grid` gives the number of programs from the symbols."""

    name: str
    ttir: str = field(repr=False)
    grid: ir.AffineMap
    warps: int
    stages: int


def triton_kernels(module: ir.Module) -> list[TritonKernel]:
    """The kernels of a module that `to-triton` left. The text carries the users' source lines."""
    kernels = []
    with module.context, ir.Location.unknown():
        for view in module.body.operations:
            function = view.operation
            if function.name != "tt.func":
                continue
            alone = ir.Module.create()
            copy = function.clone(ir.InsertionPoint(alone.body))
            grid, warps, stages = (function.attributes[name].value for name in LAUNCH)
            for name in LAUNCH:
                del copy.attributes[name]
            text = alone.operation.get_asm(enable_debug_info=True)
            kernels.append(TritonKernel(function.attributes["sym_name"].value, text, grid, warps, stages))
    return kernels


def compile_kernel(kernel: TritonKernel, capability: int) -> Any:
    """Triton's compiled kernel for compute capability `capability` (90 is sm_90); `.asm` has its `ttgir`, `ptx` and `cubin`.

    Denormals are kept, as by torch's own kernels. Triton caches what it has compiled on disk.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_reflect_ftz": False}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kernel.name}.ttir"
        path.write_text(kernel.ttir)
        return triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options=options)
