"""Errors as a command line tool tells them."""

import traceback
from pathlib import Path

from bascule.dialect.failures.culprits import failure_of
from bascule.dialect.mlir import ir
from bascule.errors import BasculeError


def told(error: Exception) -> str:
    """The message, with a place and the pass that ran: of an exception that is neither ours nor MLIR's, the op and the line that raised it."""
    failure = failure_of(error)
    if isinstance(error, BasculeError | ir.MLIRError):
        after = f"\n  {failure.told()}" if failure and (failure.foreign or isinstance(error, ir.MLIRError)) else ""
        return f"{error}{after}"
    notes = f"{failure.told()}: " if failure else "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    line = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    at = f"{failure.source}: " if failure and failure.source else ""
    return f"{at}{notes}{line}{type(error).__name__}: {error}"
