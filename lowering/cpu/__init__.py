"""Kernels to machine code for the CPU: scf and vector over memrefs, then LLVM by MLIR's own JIT. No C++ compiler.

Each kernel's schedule says where a loop runs. Reading order: `body.schedule` (the schedule read), `kernels.kernel` (segments, the functions
made), `kernels.loop_families`, `kernels.tiles`, `kernels.entry` (arguments and threads), `kernels.loops`; a body's ops: `body.emitter` and
its neighbours; values: `functions`, then `values`; last `jit`: all kernels in one module, compiled on several threads.
"""

from .jit.compilation import CompiledKernels, Compiling, compile_kernels, start_compiling
from .jit.modules import lower_kernels
from .values.target import cache_bytes, host, onednn_multiplies_faster

__all__ = [
    "CompiledKernels",
    "Compiling",
    "cache_bytes",
    "compile_kernels",
    "host",
    "lower_kernels",
    "onednn_multiplies_faster",
    "start_compiling",
]
