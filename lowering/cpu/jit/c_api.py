"""MLIR's C API, what of it compiles a module to machine code, called through ctypes: so the interpreter's lock is let go of meanwhile.

MLIR's Python bindings keep the lock. Names, arguments and ownership are those of MLIR's headers `mlir-c/*.h`, checked on torch-mlir 20261001.
"""

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_int8, c_size_t, c_void_p
from functools import cache
from typing import Any

from bascule.dialect.mlir import c_library


class Handle(Structure):
    """MlirContext, MlirModule, MlirPassManager and their like: a struct of one pointer, which is null where making it failed."""

    _fields_ = [("pointer", c_void_p)]


class Text(Structure):
    """MlirStringRef: bytes, not copied."""

    _fields_ = [("data", c_char_p), ("length", c_size_t)]


class Outcome(Structure):
    """MlirLogicalResult."""

    _fields_ = [("success", c_int8)]


TextCallback = CFUNCTYPE(None, Text, c_void_p)
FatalErrorHandler = CFUNCTYPE(None, c_char_p)
DiagnosticHandler = CFUNCTYPE(c_int8, Handle, c_void_p)

# What takes long: the lock is let go of. Function -> result, arguments.
LONG = {
    "ContextCreateWithRegistry": (Handle, [Handle, c_bool]),
    "ContextDestroy": (None, [Handle]),
    "ModuleCreateParse": (Handle, [Handle, Text]),
    "ModuleDestroy": (None, [Handle]),
    "PassManagerRunOnOp": (Outcome, [Handle, Handle]),
    "ExecutionEngineCreate": (Handle, [Handle, c_int, c_int, POINTER(Text), c_bool, c_bool]),
    "ExecutionEngineLookupPacked": (c_void_p, [Handle, Text]),
    "ExecutionEngineDestroy": (None, [Handle]),
    "ExecutionEngineDumpToObjectFile": (
        None,
        [Handle, Text],
    ),  # into a pipe that a thread reads: with the lock it never ends
}
# What is over at once: a thread that lets go of the lock waits to get it back.
SHORT = {
    "DialectRegistryCreate": (Handle, []),
    "RegisterAllDialects": (None, [Handle]),
    "RegisterAllLLVMTranslations": (None, [Handle]),
    "ContextAttachDiagnosticHandler": (ctypes.c_uint64, [Handle, DiagnosticHandler, c_void_p, c_void_p]),
    "DiagnosticPrint": (None, [Handle, TextCallback, c_void_p]),
    "DiagnosticGetLocation": (Handle, [Handle]),
    "LocationPrint": (None, [Handle, TextCallback, c_void_p]),
    "ModuleGetOperation": (Handle, [Handle]),
    "PassManagerCreate": (Handle, [Handle]),
    "PassManagerDestroy": (None, [Handle]),
    "PassManagerEnableVerifier": (None, [Handle, c_bool]),
    "PassManagerGetAsOpPassManager": (Handle, [Handle]),
    "ParsePassPipeline": (Outcome, [Handle, Text, TextCallback, c_void_p]),
    "ExecutionEngineRegisterSymbol": (None, [Handle, Text, c_void_p]),
}


class _Functions:
    """The functions above, without `mlir` before their names, and one of LLVM's."""

    def __init__(self) -> None:
        path = c_library()
        for table, library in ((LONG, ctypes.CDLL(path)), (SHORT, ctypes.PyDLL(path))):
            for name, (result, arguments) in table.items():
                function = getattr(library, f"mlir{name}")
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        self.InstallFatalErrorHandler = ctypes.PyDLL(path).LLVMInstallFatalErrorHandler
        self.InstallFatalErrorHandler.restype, self.InstallFatalErrorHandler.argtypes = None, [FatalErrorHandler]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"mlir{name} is not among the functions of `c_api`")


@cache
def mlir() -> Any:
    """The C API."""
    return _Functions()


@cache
def registry() -> Handle:
    """All of upstream's dialects. Never destroyed."""
    made = mlir().DialectRegistryCreate()
    mlir().RegisterAllDialects(made)
    return made


def text(content: str | bytes) -> Text:
    """Refers to `content`, which the result keeps."""
    data = content.encode() if isinstance(content, str) else content
    return Text(data, len(data))


def printed(print_: Callable[[TextCallback, None], None]) -> str:
    """Collects the text that a printing function of the API writes."""
    pieces: list[bytes] = []

    def take(piece: Text, _: None) -> None:
        address = c_void_p.from_buffer(piece).value  # not `piece.data`: no zero byte ends it
        if address is not None:  # an empty piece may be nowhere
            pieces.append(ctypes.string_at(address, piece.length))

    print_(TextCallback(take), None)
    return b"".join(pieces).decode(errors="replace")
