"""Refusals of the interpreter, with the place in the IR."""

from ..errors import UserError
from ..ir.locations import source_of
from ..mlir import ir


class InterpreterError(UserError):
    """IR whose execution is undefined (a read out of range, a division by zero), or that is not known here."""


def error(op: ir.Operation, message: str, hint: str | None = None) -> InterpreterError:
    """An error about `op`, to be raised."""
    return InterpreterError(f"'{op.name}' {message}", location=source_of(op.location) or str(op.location), hint=hint)
