"""From a module of `func`, `scf`, `vector`, `memref`, `arith` and `math` to machine code in this process."""

import ctypes
import os
from functools import cache

import torch
from bascule.dialect.mlir import execution_engine, ir, passmanager

TO_LLVM = (
    "builtin.module(arith-expand,convert-math-to-funcs,convert-scf-to-cf,"
    "convert-vector-to-llvm,convert-to-llvm,reconcile-unrealized-casts)"
)


@cache
def torch_library() -> ctypes.CDLL:
    """torch's own library: it carries Sleef, and through it libm is found. Already loaded; this finds it again."""
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))


def lower_to_llvm(module: ir.Module) -> None:
    """Leaves the LLVM dialect."""
    with module.context:
        passmanager.PassManager.parse(TO_LLVM).run(module.operation)


def compile_module(module: ir.Module, functions: list[str], *, keep_object: bool = False):
    """An `ExecutionEngine` for `module` (LLVM dialect); `functions` are those of torch's library that it calls."""
    engine = execution_engine()(module, opt_level=2, enable_object_dump=keep_object)
    library = torch_library()
    for name in functions:
        engine.raw_register_runtime(name, ctypes.cast(getattr(library, name), ctypes.c_void_p))
    return engine
