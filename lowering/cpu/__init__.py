"""Kernels to machine code for the CPU: scf and vector over memrefs, then LLVM by MLIR's own JIT. No C++ compiler.

What runs where is said by each kernel's schedule. Reading order: `plan` (the schedule read), `kernel` (segments, the functions made),
`families` (loops alike), `domain` (tiles), `entry` (arguments and threads); the body's ops: `loops`, `emitter`, `guards`, `conditions`,
`memory`, `transposition`; values: `reductions`, `polynomials`, `transcendental`, `scalars`, `indexing`, `builder`; last, `jit`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from .entry import DECLARATIONS
from .jit import compile_module, lower_to_llvm
from .kernel import KernelFunction
from .target import Target, host, onednn_multiplies_faster
from .transcendental import Functions


@dataclass(frozen=True)
class CompiledKernels:
    """`addresses`: kernel name -> address of `void name(int64_t symbols.., void *buffers.., int64_t threads)`.

    The code lives as long as this object.
    """

    addresses: dict[str, int]
    engine: Any = field(repr=False)

    def object_code(self) -> bytes:
        """The code as an object file, for `bascule.runtime.object_code`; no bytes if there is no kernel."""
        if not self.addresses:
            return b""
        with TemporaryDirectory(prefix="bascule-") as directory:
            path = Path(directory) / "kernels.o"
            self.engine.dump_to_object_file(str(path))
            return path.read_bytes()


def lower_kernels(module: ir.Module, target: Target) -> tuple[ir.Module, list[str], list[str]]:
    """A new module of upstream dialects with an entry a kernel; the kernels' names and those of the library functions called."""
    with module.context, ir.Location.unknown():
        kernels = [KernelFunction(f, target) for f in functions(module) if kernel_op(f) is not None]
        lowered = ir.Module.parse(DECLARATIONS + "".join(kernel.skeleton() for kernel in kernels))
        table = ir.SymbolTable(lowered.operation)
        called = Functions(target)
        for kernel in kernels:
            kernel.fill(table, called)
        with ir.InsertionPoint.at_block_begin(lowered.body):
            for name, type_ in called.declared.items():
                attributes = {
                    "sym_name": ir.StringAttr.get(name),
                    "function_type": ir.TypeAttr.get(type_),
                    "sym_visibility": ir.StringAttr.get("private"),
                }
                ir.Operation.create("func.func", attributes=attributes, regions=1)
    return lowered, [kernel.name for kernel in kernels], list(called.declared)


def compile_kernels(module: ir.Module, *, vector_bits: int | None = None) -> CompiledKernels:
    """Compiles every kernel function of `module` (program stage), as the schedules of the kernels say.

    `vector_bits`: instructions for vectors of 512, 256 or 128 bits, or the machine's. Raises `UserError` for a schedule that does not fit.
    """
    target = Target(vector_bits) if vector_bits else host()
    lowered, names, called = lower_kernels(module, target)
    lower_to_llvm(lowered)
    engine = compile_module(lowered, called, keep_object=True)
    return CompiledKernels({name: engine.raw_lookup(name) for name in names}, engine)


__all__ = ["CompiledKernels", "compile_kernels", "host", "lower_kernels", "onednn_multiplies_faster"]
