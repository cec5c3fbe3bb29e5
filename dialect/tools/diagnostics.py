"""Diagnostics of a run over one chunk of input: collecting them, printing them, holding them against `expected-...` comments."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..errors import BasculeError, UserError
from ..ir.locations import source_of
from ..mlir import ir

_EXPECTED = re.compile(r"expected-(error|warning|remark|note)(?:-re)?\s*(@[+-]\d+|@above|@below)?\s*\{\{(.*?)\}\}")


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

    def __str__(self) -> str:
        return f"{self.source or '<unknown>'}: {self.severity}: {self.message}"


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

    @contextmanager
    def collecting(self, context: ir.Context) -> Iterator[None]:
        """Takes what is emitted in `context`, and what is raised inside, as diagnostics."""

        def handler(diagnostic) -> bool:
            self.add(diagnostic)
            return True

        attached = context.attach_diagnostic_handler(handler)
        try:
            yield
        except ir.MLIRError as error:
            self.failed = True
            for diagnostic in error.error_diagnostics:
                self.add(diagnostic)
        except UserError as error:
            self.failed = True
            self.found.append(Diagnostic("error", error.location, str(error.message)))
            if error.hint:
                self.found.append(Diagnostic("note", error.location, f"hint: {error.hint}"))
        except BasculeError as error:
            self.failed = True
            self.found.append(Diagnostic("error", None, str(error)))
        finally:
            attached.detach()


def verify(text: str, found: list[Diagnostic], first_line: int) -> list[str]:
    """What is wrong between the `expected-<severity> @<line> {{text}}` comments of a chunk and what was found.

    Lines of `found` count from 1 in the chunk; `first_line` is the chunk's first line in the file, for the complaints.
    Notes need no comment, as in `mlir-opt`.
    """
    wanted: list[tuple[str, int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _EXPECTED.finditer(line):
            severity, where, message = match.groups()
            offset = {None: 0, "@above": -1, "@below": 1}.get(where)
            wanted.append((severity, number + (int(where[1:]) if offset is None else offset), message))
    complaints = []
    for diagnostic in found:
        answered = next(
            (
                want
                for want in wanted
                if want[0] == diagnostic.severity and want[1] == diagnostic.line and want[2] in diagnostic.message
            ),
            None,
        )
        if answered:
            wanted.remove(answered)
        elif diagnostic.severity != "note":
            where = "?" if diagnostic.line is None else diagnostic.line + first_line - 1
            complaints.append(f"line {where}: unexpected {diagnostic.severity}: {diagnostic.message}")
    for severity, number, message in wanted:
        complaints.append(f'line {number + first_line - 1}: expected {severity} "{message}" was not produced')
    return complaints
