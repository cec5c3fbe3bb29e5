"""From a module of `func`, `scf`, `vector`, `memref`, `arith` and `math` to machine code in this process."""

import ctypes
import os
import weakref
from collections.abc import Sequence
from functools import cache

import torch
from bascule.dialect.errors import CompilerError

from .c_api import DiagnosticHandler, Handle, mlir, printed, registry, text
from .fatal_errors import survive
from .object_file import object_file

TO_LLVM = (
    "builtin.module(arith-expand,convert-math-to-funcs,convert-scf-to-cf,"
    "convert-vector-to-llvm,convert-to-llvm,reconcile-unrealized-casts)"
)
OPTIMIZATION = 2  # of LLVM: 3 makes no faster kernels


@cache
def torch_library() -> ctypes.CDLL:
    """torch's own library: it carries Sleef, and through it libm is found. Already loaded; this finds it again.

    `runtime/kernels/elf_loader.py` has the same for code that was compiled before: it runs without the lowering, which may not import it either.
    """
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))


class MachineCode:
    """The compiled functions of a module. They live as long as this."""

    def __init__(self, engine: Handle):
        self._engine = engine
        weakref.finalize(self, mlir().ExecutionEngineDestroy, engine).atexit = False

    @staticmethod
    def of(bytecode: bytes, called: Sequence[str]) -> "MachineCode":
        """Compiles a module, given as MLIR's bytecode, in an MLIR context of its own, and without the interpreter's lock for most of the time.

        `called`: the functions of torch's library that it calls. Raises `CompilerError` with what MLIR says.
        """
        api, told = mlir(), list[str]()
        survive()

        def keep(diagnostic: Handle, _: None) -> int:
            location = printed(lambda *to: api.LocationPrint(api.DiagnosticGetLocation(diagnostic), *to))
            told.append(f"{location}: {printed(lambda *to: api.DiagnosticPrint(diagnostic, *to))}")
            return 1

        def check(good: int | None) -> None:
            if not good:
                raise CompilerError("\n".join(told) or "MLIR gives no reason")

        handler = DiagnosticHandler(keep)
        context = api.ContextCreateWithRegistry(registry(), False)
        try:
            api.ContextAttachDiagnosticHandler(context, handler, None, None)
            api.RegisterAllLLVMTranslations(context)
            module = api.ModuleCreateParse(context, text(bytecode))
            check(module.pointer)
            try:
                check(_to_llvm(context, module).success)
                engine = api.ExecutionEngineCreate(module, OPTIMIZATION, 0, None, True, False)
                check(engine.pointer)
            finally:
                api.ModuleDestroy(module)
        finally:
            api.ContextDestroy(context)
        code = MachineCode(engine)
        for name in called:
            address = ctypes.cast(getattr(torch_library(), name), ctypes.c_void_p)
            api.ExecutionEngineRegisterSymbol(engine, text(name), address)
        return code

    def address(self, name: str) -> int:
        """Of the function `_mlir_<name>`. The first call compiles all functions. Raises `CompilerError` where there is none, or where one
        calls what is not there."""
        address = mlir().ExecutionEngineLookupPacked(self._engine, text(name))
        if not address:
            raise CompilerError(f"the JIT has no machine code of '{name}'")
        return address

    def object_file(self) -> bytes:
        """The code as an ELF file. Raises as `object_file.object_file` does."""
        return object_file(self._engine)


def _to_llvm(context: Handle, module: Handle):
    """Leaves the LLVM dialect. Nothing is verified between the passes, which are all upstream's."""
    api = mlir()
    passes = api.PassManagerCreate(context)
    try:
        api.PassManagerEnableVerifier(passes, False)
        mistakes = printed(
            lambda *to: api.ParsePassPipeline(api.PassManagerGetAsOpPassManager(passes), text(TO_LLVM), *to)
        )
        if mistakes:
            raise CompilerError(mistakes)
        return api.PassManagerRunOnOp(passes, api.ModuleGetOperation(module))
    finally:
        api.PassManagerDestroy(passes)
