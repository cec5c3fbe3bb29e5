"""MLIR's bytecode: files of it are read as text is, and a result can be written as it."""

import io
import sys
from pathlib import Path

from ..errors import UserError
from ..ir import context
from ..mlir import ir

MAGIC = b"ML\xefR"


def read_ir(path: str, *, unregistered: bool = False) -> str:
    """The text of a file, or of the standard input ("-"). Raises as `text_of` does, and OSError."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return text_of(data, path, unregistered=unregistered)


def text_of(data: bytes, path: str, *, unregistered: bool = False) -> str:
    """The text in a file of IR: of bytecode, what it stands for, with locations. `unregistered`: operations of any dialect are taken. Raises
    `UserError` for damaged bytecode, and UnicodeDecodeError for what is no text."""
    if not data.startswith(MAGIC):
        return data.decode()
    with context(unregistered=unregistered):
        try:
            module = ir.Module.parse(data)
        except ir.MLIRError as error:
            told = "; ".join(diagnostic.message for diagnostic in error.error_diagnostics) or str(error)
            raise UserError(f"is no bytecode that can be read: {told}", location=path) from None
        return module.operation.get_asm(enable_debug_info=True)


def bytecode_of(text: str) -> bytes:
    """The module of a text, as bytecode."""
    with context(unregistered=True):
        out = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(out)
        return out.getvalue()
