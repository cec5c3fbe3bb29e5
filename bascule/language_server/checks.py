"""Errors and remarks of a text, with their places: MLIR, the dialect's contract and passes are asked."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.dialect.passes.stages import check_signatures
from bascule.dialect.remarks.attribute import remarks
from bascule.dialect.steering.asking import steered_by
from bascule.dialect.tools.command_line import Arguments, parse_arguments
from bascule.dialect.tools.diagnostics import Collector
from bascule.dialect.tools.parsing import chunks, parse
from bascule.errors import UserError

from .run_lines import first_run_line, suite_of
from .tokens import without_locations

_PLACE = re.compile(r"-:(\d+):(\d+)")
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A message at a place as MLIR counts: line and column from 1, the column in bytes. `kind`: error, warning, or a remark's kind."""

    line: int
    column: int
    kind: str
    message: str
    detail: str = ""


@dataclass(frozen=True)
class Told:
    """Remarks and failures of passes. `loaded`: code of the user's is in this process now."""

    remarks: list[Finding]
    failures: list[Finding]
    loaded: bool = False


def check(text: str, path: str) -> list[Finding]:
    """The complaints of the parser, the verifiers and the dialect's contract, in each of the modules between `// -----` lines; what only passes
    complain about, signatures that leave open what they need, are warnings."""
    run, found = first_run_line(text, path), list[Finding]()
    for chunk, first_line in _chunks(text):
        collector, ctx = Collector(), context()
        ctx.allow_unregistered_dialects = run is not None and "--allow-unregistered-dialect" in run.words
        with ctx, collector.collecting(ctx):
            blank = without_locations(chunk)
            module = parse(blank)
            if blank != chunk:
                parse(chunk)  # for what is wrong with its locations
        found += _errors(collector, first_line)
        if not collector.failed:
            precondition = Collector()
            with ctx, precondition.collecting(ctx):
                check_signatures(module)
            found += _errors(precondition, first_line, "warning")
    return found


def run_passes(text: str, path: str, *, may_load: bool) -> Told:
    """The remarks that the passes leave which the first RUN line names, else those that `torch.compile` runs on what is there.

    `may_load`: whether a RUN line may have code of the user's loaded. What does not parse has no remarks.
    """
    run = first_run_line(text, path)
    if run is not None and run.loads and not may_load:
        told = "this RUN line loads code, which bascule-lsp does if it is started with --load"
        return Told([], [Finding(run.line, 1, "information", told)])
    if run is not None and run.loads:
        sys.path.insert(0, str(suite_of(Path(path))))
    try:
        arguments = None if run is None else parse_arguments(list(run.words))
    except (UserError, OSError) as error:
        pass_on(error)
        return Told([], [Finding(run.line if run else 1, 1, "warning", str(error))])
    said, failures = list[Finding](), list[Finding]()
    for chunk, first_line in _chunks(text):
        collector, ctx = Collector(), context()
        ctx.allow_unregistered_dialects = arguments is not None and "allow-unregistered-dialect" in arguments.flags
        with ctx, collector.collecting(ctx), steered_by(arguments.hooks if arguments else None):
            module = _placed(chunk)
            for pipeline in _pipelines(module, arguments):
                pipeline.run(module, verify=True)
            said += _remarks(module, first_line)
        failures += _errors(collector, first_line, "warning")
    return Told(said, failures, run is not None and run.loads)


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """The modules of a file, each with its first line."""
    return ((chunk, line) for chunk, line in chunks(text) if _COMMENT.sub("", chunk).strip())


def _pipelines(module: ir.Module, arguments: Arguments | None) -> list[Pipeline]:
    if arguments is not None:
        return arguments.pipelines()
    from .stages import remaining_passes  # PyTorch, which a second goes by for

    return [remaining_passes(module)]


def _placed(text: str) -> ir.Module:
    """The module of `text`, whose ops are at their places in it and keep the operators that they were made from."""
    blank = without_locations(text)
    module = parse(blank)
    if blank == text:
        return module
    for op, original in zip(ops_in(module.operation), ops_in(parse(text).operation)):
        operators = operators_of(original.location)
        if operators:
            op.location = ir.Location.name(operators[-1], childLoc=op.location)
    return module


def _errors(collector: Collector, first_line: int, kind: str = "error") -> list[Finding]:
    """The errors and warnings of a chunk, each with its notes; what says no place is at the chunk's first line."""
    found = list[Finding]()
    for diagnostic in collector.found:
        if diagnostic.severity == "note":
            if found and not diagnostic.message.startswith(("see current operation", "Traceback")):
                last = found.pop()
                found.append(Finding(last.line, last.column, last.kind, f"{last.message}\n{diagnostic.message}"))
            continue
        line, column = _place(diagnostic.source, first_line) or (first_line, 1)
        severity = kind if diagnostic.severity == "error" else diagnostic.severity
        found.append(Finding(line, column, severity, diagnostic.message))
    return found


def _place(source: str | None, first_line: int) -> tuple[int, int] | None:
    match = _PLACE.fullmatch(source or "")
    return (int(match[1]) + first_line - 1, int(match[2])) if match else None


def _remarks(module: ir.Module, first_line: int) -> Iterator[Finding]:
    """The remarks of passes at their ops; those whose op has no place are at their function."""
    places = {f.attributes["sym_name"].value: source_of(f.location) for f in functions(module)}
    for remark in remarks(module):
        place = _place(remark.op.source, first_line) or _place(places.get(remark.function), first_line)
        line, column = place or (first_line, 1)
        told = re.sub(r" \(-:\d+:\d+\)", lambda match: _in_file(match[0], first_line), remark.message)
        yield Finding(line, column, remark.kind, told, f"{remark.op.operator}: {told} [{remark.pass_name or 'a pass'}]")


def _in_file(place: str, first_line: int) -> str:
    """` (line 12)` for a place in the chunk."""
    return f" (line {int(place.split(':')[1]) + first_line - 1})"
