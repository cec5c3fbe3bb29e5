"""Reproducers: a failure of the compiler leaves a file that `bascule-opt` replays."""

import shlex
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch.fx import GraphModule

from ..dialect.failures.culprits import Failure, failure_of
from ..dialect.interrupts import pass_on
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.steering.asking import steered_by
from ..dialect.user_classes import specification
from ..errors import CompilerError, UnsupportedError
from ..options import Options
from ..reporting.compile_record import Record, log, text_of
from ..reporting.dump_files import fresh_folder, written


@dataclass
class Snapshot:
    """The IR as it was before the passes ran. Cloning it costs less than printing it, which only a failure needs."""

    operation: ir.Operation

    @staticmethod
    def of(module: ir.Module) -> "Snapshot":
        return Snapshot(module.operation.clone())

    def text(self) -> str:
        return self.operation.get_asm(enable_debug_info=True)

    def after(self, passes: Pipeline) -> str:
        """The text of it after `passes`."""
        with self.operation.context:
            module = ir.Module.parse(self.text())
        passes.run(module)
        return text_of(module)


def compiler_error(
    error: Exception, gm: GraphModule, record: Record, options: Options, snapshot: Snapshot | None, pipeline: Pipeline
) -> CompilerError:
    """Writes the reproducer for `error`, which a stage raised that should not have; returns the error to raise."""
    told = error.message if isinstance(error, CompilerError | UnsupportedError) else f"{type(error).__name__}: {error}"
    failure = failure_of(error)
    at = f" at {failure.source}" if failure is not None and failure.source else ""
    message = f"'{record.running}' failed on {record.name}{at}: {told}\n  in {_innermost(error)}"
    if failure is not None and failure.left:
        message = f"{failure.told()} on {record.name}: {told}"
    whose = partial(CompilerError, message)
    if failure is not None:
        culprit = failure.culprit if failure.foreign else None
        whose = partial(whose, culprit=culprit, suspects=failure.before)
    log.debug(message, exc_info=error)
    if record.lowering and record.module is not None:
        text, command = text_of(record.module), replay_of(record.running)
    elif snapshot is not None:
        from ..dialect.failures.reproducers import specs

        hooks = [] if options.hooks is None else [f"--load-hooks={specification(type(options.hooks))}"]
        loads = [*(f"--load-pass={spec}" for spec in specs(pipeline.stages)), *hooks]
        text, command = snapshot.text(), ["bascule-opt", *loads, f"--pass-pipeline={pipeline}"]
    else:  # nothing was imported
        from .fx_source import source_of_graph

        text = f"# RUN: bascule-import %s:graph\n{_comment('#', error)}\n{source_of_graph(gm)}"
        path = _write(options, f"{record.name}.py", text)
        return whose(reproducer=path, command=f"bascule-import {path}:graph")
    text = f"// RUN: {shlex.join(command)} %s\n{_comment('//', error)}\n{text}"
    path = _write(options, f"{record.name}.mlir", text)
    whole = shlex.join([*command, str(path)])
    local = None if record.lowering else _local(failure, snapshot, pipeline, record, options)
    return whose(reproducer=path, command=whole, local=local and f"bascule-opt {shlex.quote(local)} --run-reproducer")


def _local(
    failure: Failure | None, snapshot: Snapshot | None, pipeline: Pipeline, record: Record, options: Options
) -> str | None:
    """The path of a file with the IR just before the pass that failed, and that pass; None where there is none, or it cannot be written.

    A compile keeps no IR between its passes: those before the failure run once more, and may only do what they did."""
    if failure is None or snapshot is None:
        return None
    from ..dialect.failures.reproducers import for_stage

    stage = pipeline.stages[failure.number]
    try:
        with steered_by(options.hooks):
            text = snapshot.after(Pipeline(pipeline.stages[: failure.number]))
    except Exception as error:  # a pass that does not do the same twice
        pass_on(error)
        log.debug("%s: no local reproducer: %s", record.name, error)
        return None
    return _write(options, f"{record.name}.{stage.name}.mlir", for_stage(stage, hooks=options.hooks).at_end_of(text))


def replay_of(stage: str) -> list[str]:
    """The command that replays a failure of `stage`, one of those after the passes."""
    commands = {
        "to-triton": ["bascule-opt", "--pass-pipeline=to-triton"],
        "triton": ["bascule-opt", "--to-triton", "--emit=ptx"],
        "load kernels": ["bascule-opt", "--to-triton", "--emit=sass-report"],
    }
    return commands.get(stage, ["bascule-run", "--compare"])


def write_kernel(kernel: ir.Operation, record: Record, stage: str, error: Exception) -> tuple[str | None, str]:
    """A file with one kernel function, for which `stage` raised `error`, None if it cannot be written, and the command line that replays it.
    What runs a program needs all of it: then the whole module."""
    command = replay_of(stage)
    if command[0] == "bascule-opt":
        with kernel.context, ir.Location.unknown():
            alone = ir.Module.create()
            kernel.clone(ir.InsertionPoint(alone.body))
            text = text_of(alone)
    else:
        assert record.module is not None
        text = text_of(record.module)
    file = f"{record.name}_{kernel.attributes['sym_name'].value}.mlir"
    path = _write(record.options, file, f"// RUN: {shlex.join(command)} %s\n{_comment('//', error)}\n{text}")
    return path, shlex.join([*command, str(path)])


def _comment(mark: str, error: Exception) -> str:
    """The traceback as comment lines: Dynamo drops it on the way to the user."""
    text = "".join(traceback.format_exception(error))
    return "\n".join(f"{mark} {line}" for line in text.splitlines())


def _innermost(error: Exception) -> str:
    """Where `error` was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.name})"


def _write(options: Options, file: str, text: str) -> str | None:
    """The path of `file`, in the folder of the option `dump` or a fresh one; None, after a warning, if it cannot be written."""
    folder = Path(options.dump) if options.dump is not None else fresh_folder()
    return str(folder / file) if folder is not None and written(folder / file, text) else None
