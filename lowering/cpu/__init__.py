"""Kernels to machine code for the CPU: scf and vector over memrefs, then LLVM by MLIR's own JIT. No C++ compiler.

What runs where is said by each kernel's schedule. Reading order: `plan` (the schedule read), `kernel` (segments, the functions made),
`families` (loops alike), `domain` (tiles), `entry` (arguments and threads); the body's ops: `loops`, `emitter`, `guards`, `conditions`,
`repetition`, `memory`, `transposition`; values: `reductions`, `polynomials`, `transcendental`, `registers`, `narrow_floats`, `scalars`,
`indexing`, `builder`; then `modules` (all of them in one module), `compilation` (on several threads), `machine_code`, `c_api`.
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
