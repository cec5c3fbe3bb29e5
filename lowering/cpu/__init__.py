"""Kernels to machine code for the CPU: scf and vector over memrefs, then LLVM by MLIR's own JIT. No C++ compiler.

Each kernel's schedule says what runs where. Reading order: `body/schedule.py` (the schedule as read), `kernels/` (`kernel.py` first: segments,
the functions made), `body/` (op by op), `functions/` and `values/` (what a value is computed by), `jit/` (modules to machine code).
"""

from .jit.compilation import CompiledKernels, Compiling, compile_kernels, start_compiling
from .jit.modules import lower_kernels
from .target import host, onednn_multiplies_faster

__all__ = [
    "CompiledKernels",
    "Compiling",
    "compile_kernels",
    "host",
    "lower_kernels",
    "onednn_multiplies_faster",
    "start_compiling",
]
