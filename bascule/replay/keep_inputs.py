"""A compiled graph whose first call also writes its inputs beside the IR that was dumped of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed

from ..compiled.compiled_graph import CompiledGraph
from ..dialect.interpreter import arguments_of
from ..dialect.interrupts import pass_on
from ..dialect.mlir import ir
from ..reporting.compile_record import Record
from ..reporting.dump_files import not_written
from .saved_inputs import write_inputs

NONE = "none"  # the option's value for no inputs


def keeping_inputs(
    graph: CompiledGraph, module: ir.Module, constants: Sequence[torch.Tensor], record: Record
) -> CompiledGraph:
    """`graph`, compiled from `module`, as the options `dump` and `dump_inputs` ask for."""
    if record.options.dump is None or record.options.dump_inputs == NONE:
        return graph
    folder, pending = Path(record.options.dump) / record.name, [(module, constants)]

    def keep(args: list[Any]) -> None:
        """Drops all that keeps the IR alive."""
        found, held = pending.pop()
        try:
            write_inputs(folder, arguments_of(found, args, held), record.options.dump_inputs)
        except (OSError, RuntimeError) as error:  # a full disk, or tensors that have no memory
            pass_on(error)
            not_written(folder, error)

    def kept(call: Boxed) -> Boxed:
        @boxed
        def run(args: list[Any]) -> Sequence[Any]:
            if pending:
                keep(args)
            return call(args)

        return run

    finish = None if graph.finish is None else lambda: kept(graph.finished())
    return replace(graph, call=kept(graph.call), finish=finish)
