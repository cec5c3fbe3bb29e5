"""Errors as a command line tool tells them."""

import traceback
from pathlib import Path
from typing import Any

from bascule.dialect.failures.culprits import failure_of
from bascule.dialect.ir.locations import source_of
from bascule.dialect.mlir import ir
from bascule.errors import BasculeError


def told(error: Exception) -> str:
    """The message, with a place and the pass that ran: of an exception that is neither ours nor MLIR's, the op and the line that raised it."""
    failure = failure_of(error)
    if isinstance(error, BasculeError | ir.MLIRError):
        after = f"\n  {failure.told()}" if failure and (failure.foreign or isinstance(error, ir.MLIRError)) else ""
        message = _diagnosed(error) if isinstance(error, ir.MLIRError) else str(error)
        return f"{message}{after}"
    notes = f"{failure.told()}: " if failure else "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    line = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    at = f"{failure.source}: " if failure and failure.source else ""
    return f"{at}{notes}{line}{type(error).__name__}: {error}"


def _diagnosed(error: ir.MLIRError) -> str:
    """The diagnostics of MLIR, places as everywhere (`file:line:column`), without the text of the whole operation."""
    lines = []
    for diagnostic in error.error_diagnostics:
        lines.append(f"{_place(diagnostic)}: {diagnostic.message}")
        notes = (note for note in diagnostic.notes if not note.message.startswith("see current operation"))
        lines += [f"  {_place(note)}: note: {note.message}" for note in notes]
    return "\n".join(lines) or str(error)


def _place(diagnostic: Any) -> str:
    with diagnostic.location.context:
        return source_of(diagnostic.location) or "<unknown>"
