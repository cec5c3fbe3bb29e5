"""A function that runs a compiled graph, whose first call also writes its inputs beside the IR that was dumped of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed

from ..dialect.interpreter import arguments_of
from ..dialect.interrupts import pass_on
from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.dump_files import not_written
from .saved_inputs import write_inputs

NONE = "none"  # the option's value for no inputs


def keeping_inputs(call: Boxed, module: ir.Module, constants: Sequence[torch.Tensor], record: Record) -> Boxed:
    """`call`, which runs what was compiled from `module`, as the options `dump` and `dump_inputs` ask for."""
    if record.options.dump is None or record.options.dump_inputs == NONE:
        return call
    folder, pending = Path(record.options.dump) / record.name, [(module, constants)]

    def keep(args: list[Any]) -> None:
        """Drops all that keeps the IR alive."""
        found, held = pending.pop()
        try:
            write_inputs(folder, arguments_of(found, args, held), record.options.dump_inputs)
        except (OSError, RuntimeError) as error:  # a full disk, or tensors that have no memory
            pass_on(error)
            not_written(folder, error)

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        if pending:
            keep(args)
        return call(args)

    return run
