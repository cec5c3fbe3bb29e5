"""The driver: one functional graph through the stages, in order."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bascule.frontend.importer import import_graph
from bascule.lowering.cpu import compile_kernels
from bascule.lowering.program import to_python
from bascule.runtime import load

from .counting import count
from .devices import check_devices
from .dialect.ir import context
from .dialect.mlir import ir
from .errors import CompilerError, UnsupportedError, UserError
from .fallback import run_otherwise
from .options import Options
from .pipelines import pipeline_for
from .record import Record
from .reproducer import Snapshot, compiler_error
from .summary import aten_calls, launches

Boxed = Callable[[list[Any]], Sequence[Any]]


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    *,
    name: str = "graph",
    on_record: Callable[[Record], None] | None = None,
) -> Boxed:
    """Compiles `gm`, a functional graph of ATen operators as AOTAutograd makes it.

    `example_inputs`: a fake tensor, a number or a symbolic integer for each placeholder. `name` stands in warnings,
    dumps and reproducers. Returns a function with the boxed calling convention. Raises what `options` asks for: see
    `run_otherwise`. Safe to call from several threads: each call has an MLIR context of its own.
    """
    record = Record(name, options, nodes=len(gm.graph.nodes))
    try:
        compiled = _through_stages(gm, example_inputs, options, record)
        _count(record.module)
    except (CompilerError, UnsupportedError) as error:
        compiled = run_otherwise(gm, example_inputs, options, record, error)
    record.finished()
    if on_record is not None:
        on_record(record)
    return compiled


def _count(module: ir.Module) -> None:
    count("graphs", "compiled")
    launched, distinct = launches(module)
    count("kernels", "launches", launched)
    count("kernels", "distinct", distinct)
    for call in aten_calls(module):
        count("aten", f"{call.operator}: {call.reason}", call.calls)


def _through_stages(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record) -> Boxed:
    pipeline, snapshot = pipeline_for(options), None
    try:
        with record.stage("import"):
            check_devices(gm, options.target)
            imported = import_graph(gm, example_inputs, context=context())
        record.module, snapshot = imported.module, Snapshot.of(imported.module)
        record.dump_module("import", imported.module)
        pipeline.run(imported.module, verify=options.verify, observers=[record.observe])
        with record.stage("jit"):
            kernels = compile_kernels(imported.module)
        with record.stage("wrapper"):
            record.wrapper = to_python(imported.module)
        file = record.dump("wrapper.py", record.wrapper)
        with record.stage("load"):
            return load(record.wrapper, kernels, imported.constants, file=file)
    except UnsupportedError:
        raise
    except Exception as error:  # whatever a stage raises is a bug of ours: it is reported as one, with a reproducer
        if isinstance(error, UserError) and options.pipeline is not None:
            raise  # the order of the passes is the user's: IR that one of them does not take is too
        raise compiler_error(error, gm, record, options, snapshot, pipeline) from error
