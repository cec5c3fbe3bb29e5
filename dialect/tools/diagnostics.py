"""Diagnostics of a run over one chunk of input: collecting them, printing them, holding them against `expected-...` comments."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from traceback import format_exception

from ..errors import BasculeError, UserError, UserErrors
from ..failures.culprits import failure_of
from ..interrupts import pass_on
from ..ir.locations import source_of
from ..mlir import ir
from ..remarks.record import Remark

_EXPECTED = re.compile(
    r"expected-(error|warning|remark|note)(-re)?\s*(@[+-]\d+|@above|@below|@unknown)?\s*\{\{((?(2).*|.*?))\}\}"
)
_REGEX = re.compile(r"\{\{(.*?)\}\}")  # in the text of an `expected-error-re`


@dataclass(frozen=True)
class Diagnostic:
    """One message; `source` is `file:line:column`, or what the error has for a location."""

    severity: str
    source: str | None
    message: str

    @property
    def line(self) -> int | None:
        parts = (self.source or "").rsplit(":", 2)
        return int(parts[-2]) if len(parts) == 3 and parts[-2].isdigit() else None

    def in_file(self, path: str, first_line: int) -> "Diagnostic":
        """The diagnostic of a chunk of the file `path` that begins at `first_line`: what MLIR calls `-:line:column` is a place there."""
        match = re.fullmatch(r"-:(\d+):(\d+)", self.source or "")
        if match is None:
            return self
        return replace(self, source=f"{path}:{int(match[1]) + first_line - 1}:{match[2]}")

    def with_excerpt(self, path: str, text: str) -> str:
        """The message, and under it the line of `text`, which the file `path` holds, with a caret at the place."""
        match = re.fullmatch(r"(.*):(\d+):(\d+)", self.source or "")
        lines = text.split("\n")  # as MLIR counts them
        if match is None or match[1] != path or not 1 <= int(match[2]) <= len(lines):
            return str(self)
        line = lines[int(match[2]) - 1].rstrip("\r")
        space = re.sub(r"[^\t]", " ", line[: int(match[3]) - 1])
        return f"{self}\n{line}\n{space}^"

    def __str__(self) -> str:
        return f"{self.source or '<unknown>'}: {self.severity}: {self.message}"


def as_diagnostic(remark: Remark) -> Diagnostic:
    return Diagnostic("remark", remark.op.source, remark.diagnostic)


@dataclass
class Collector:
    """Every diagnostic that MLIR or a pass gives while `collecting`, in order; `failed` says whether one stopped the run."""

    found: list[Diagnostic] = field(default_factory=list)
    failed: bool = False

    def add(self, diagnostic) -> None:
        severity = str(diagnostic.severity).rsplit(".", 1)[-1].lower()
        self.found.append(Diagnostic(severity, source_of(diagnostic.location), diagnostic.message))
        for note in diagnostic.notes:
            self.add(note)

    def add_error(self, error: Exception) -> None:
        """Adds what `error` tells, at the op that a pass was at, and notes the pass where that is not said."""
        failure = failure_of(error)
        source: str | None = getattr(error, "location", None) or (failure.source if failure else None)
        if isinstance(error, ir.MLIRError):
            for diagnostic in error.error_diagnostics:
                self.add(diagnostic)
            source = self.found[-1].source if self.found else None
        elif isinstance(error, BasculeError):
            for each in error.errors if isinstance(error, UserErrors) else (error,):
                source = getattr(each, "location", None) or source
                self.found.append(Diagnostic("error", source, each.message))  # type: ignore[attr-defined]
                if isinstance(each, UserError) and each.hint:
                    self.found.append(Diagnostic("note", source, f"hint: {each.hint}"))
        else:
            where = f"{failure.told()}: " if failure else ""
            self.found.append(Diagnostic("error", source, f"{where}{type(error).__name__}: {error}"))
            self.found.append(Diagnostic("note", None, "".join(format_exception(error))))
            return
        if failure is not None and (failure.foreign or failure.before or isinstance(error, ir.MLIRError)):
            self.found.append(Diagnostic("note", source, failure.told()))

    @contextmanager
    def collecting(self, context: ir.Context) -> Iterator[None]:
        """Takes what is emitted in `context`, and what is raised inside, as diagnostics."""

        def handler(diagnostic) -> bool:
            self.add(diagnostic)
            return True

        attached = context.attach_diagnostic_handler(handler)
        try:
            yield
        except Exception as error:  # a pass's own, whatever it is; the other chunks of the file are run all the same
            pass_on(error)
            self.failed = True
            self.add_error(error)
        finally:
            attached.detach()


@dataclass(frozen=True)
class Expected:
    """A diagnostic that a comment expects; `line` counts from 1 in the chunk, None is a place that nobody knows."""

    severity: str
    line: int | None
    text: str
    pattern: re.Pattern

    def matches(self, diagnostic: Diagnostic) -> bool:
        same = (self.severity, self.line) == (diagnostic.severity, diagnostic.line)
        return same and self.pattern.search(diagnostic.message) is not None


def _expected(text: str, place: Callable[[int], str]) -> Iterator[Expected]:
    """The diagnostics that comments of a chunk expect; `place` tells that of a line. Raises `UserError` for what is no regular expression."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in _EXPECTED.finditer(line):
            severity, is_regex, where, message = match.groups()
            offset = {None: 0, "@above": -1, "@below": 1, "@unknown": None}.get(where, where)
            at = number + int(where[1:]) if isinstance(offset, str) else None if offset is None else number + offset
            parts = _REGEX.split(message) if is_regex else [message]  # text and expressions take turns
            pattern = "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
            try:
                yield Expected(severity, at, message, re.compile(pattern))
            except re.error as error:
                raise UserError(f"'{message}' is no regular expression: {error}", location=place(number)) from None


def verify(text: str, found: list[Diagnostic], path: str, first_line: int, *, expected_only: bool = False) -> list[str]:
    """Compares the `expected-<severity> @<line> {{text}}` comments of a chunk with what was found; returns a complaint for each difference.

    Lines of `found` count from 1 in the chunk; `first_line` is the chunk's first line in the file `path`, for the complaints.
    Notes need no comment, as in `mlir-opt`, and nothing does with `expected_only`.
    After `-re`, what stands in `{{...}}` inside of the text is a regular expression. Raises `UserError` for one that is none.
    """

    def place(line: int | None) -> str:
        return "<unknown>" if line is None else f"{path}:{line + first_line - 1}"

    wanted = list(_expected(text, place))
    complaints = []
    for diagnostic in found:
        answered = next((want for want in wanted if want.matches(diagnostic)), None)
        if answered:
            wanted.remove(answered)
        elif diagnostic.severity != "note" and not expected_only:
            source = diagnostic.in_file(path, first_line).source or "<unknown>"
            complaints.append(f"{source}: error: unexpected {diagnostic.severity}: {diagnostic.message}")
    for want in wanted:
        complaints.append(f'{place(want.line)}: error: expected {want.severity} "{want.text}" was not produced')
    return complaints
