"""A launch held against the interpreter, by what `bascule-run` allows each element."""

from collections.abc import Sequence

import torch

from ..dialect.interpreter import Comparison, InterpreterError, reference
from ..dialect.mlir import ir
from ..errors import UserError
from ..replay.saved_inputs import on_the_cpu
from .launches import Call


def compared(module: ir.Module, call: Call, buffers: Sequence[torch.Tensor], written: Sequence[int]) -> Comparison:
    """How what `call` leaves in those of `buffers` that it writes compares, which has the launch run. Raises `UserError` for a kernel that the
    interpreter cannot run."""
    try:
        wanted = reference(module, [*call.symbols, *map(on_the_cpu, buffers)], call.name)
    except InterpreterError as error:
        raise UserError(f"the interpreter does not run '{call.name}': {error}", location="--check") from error
    call.run()
    return wanted.select(written).compare([on_the_cpu(buffers[number]) for number in written])
