"""Errors as a command line tool tells them."""

import traceback
from pathlib import Path

from bascule.dialect.mlir import ir
from bascule.errors import BasculeError


def told(error: Exception) -> str:
    """The message, with a place: of an exception that is neither ours nor MLIR's, the pass that ran and the line that raised it."""
    if isinstance(error, BasculeError | ir.MLIRError):
        return str(error)
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{notes}{type(error).__name__}: {error}"
