"""Texts whose lines come from lines of the user's: IR of a stage, Triton IR, the module that runs, the user's own files.

Each line has the user's lines that it comes from, as text (`model.py:12`): two lines of any documents that share one are linked.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..dialect.ir import context
from ..dialect.mlir import ir

LARGEST = 1 << 20  # bytes of a user's file that is shown


@dataclass(frozen=True)
class Document:
    title: str
    text: str
    lines: dict[int, list[str]]  # number of a line, from 0 -> the user's lines


def of_module(title: str, text: str) -> Document:
    """Of IR with locations. It is shown without them: printed so, and parsed again, each op says where it stands."""
    with context() as ctx:
        ctx.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        shown = module.operation.get_asm()
        places = _leaves(module)
        again = _leaves(ir.Module.parse(shown))
    lines: dict[int, dict[str, None]] = {}
    for (source, _), (_, number) in zip(places, again, strict=True):
        if source and number:
            lines.setdefault(number - 1, {}).update(dict.fromkeys(source))
    return Document(title, shown, {number: list(found) for number, found in lines.items()})


def _leaves(module: ir.Module) -> list[tuple[list[str], int]]:
    """Of each op, in the order of a walk: the lines of files in its location, and the number of the first."""
    found: list[tuple[list[str], int]] = []
    known: dict[ir.Location, tuple[list[str], int]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        location = op.location
        if location not in known:
            parts = list(_files(location))
            known[location] = (
                [f"{part.filename}:{part.start_line}" for part in parts],
                parts[0].start_line if parts else 0,
            )
        found.append(known[location])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _files(location: ir.Location) -> list:
    """The places in files among the leaves of a location."""
    location = ir.Location.from_attr(location.attr)
    if isinstance(location, ir.FusedLoc):
        return [part for inner in location.locations for part in _files(inner)]
    if isinstance(location, ir.CallSiteLoc):
        return _files(location.callee)
    if isinstance(location, ir.NameLoc):
        return _files(location.child_loc)
    return [location] if isinstance(location, ir.FileLineColLoc) else []


def of_wrapper(title: str, text: str) -> Document:
    """Of the module that runs a graph: the calls below a comment (`lowering/program/`) come from the line that it names."""
    lines: dict[int, list[str]] = {}
    now: list[str] = []
    for number, line in enumerate(text.splitlines()):
        comment = re.fullmatch(r"\s+# .*  (.+?):(\d+):\d+", line)
        if comment:
            now = [f"{comment[1]}:{comment[2]}"]
        elif line and not line.startswith(" "):
            now = []
        if now:
            lines[number] = now
    return Document(title, text, lines)


def of_triton(title: str, text: str) -> Document:
    """Of Triton IR, which MLIR here does not parse: a line ends with its location, or the name of one that another line defines."""
    plain = re.compile(r'^(#loc\d*) = loc\((?:"[^"]*"\()?"([^"]+)":(\d+):\d+', re.MULTILINE)
    named = {match[1]: f"{match[2]}:{match[3]}" for match in plain.finditer(text)}
    for match in re.finditer(r'^(#loc\d*) = loc\("[^"]*"\((#loc\d*)\)\)', text, re.MULTILINE):
        if match[2] in named:
            named[match[1]] = named[match[2]]
    lines: dict[int, list[str]] = {}
    shown = [line for line in text.splitlines() if not line.startswith("#loc")]
    for number, line in enumerate(shown):
        end = re.search(r'loc\((?:(#loc\d*)|(?:"[^"]*"\()?"([^"]+)":(\d+):\d+\)?)\)\s*$', line)
        place = named.get(end[1], "") if end and end[1] else f"{end[2]}:{end[3]}" if end else ""
        if place:
            lines[number] = [place]
    return Document(title, "\n".join(shown), lines)


def of_sources(documents: list[Document]) -> list[Document]:
    """The users' files that documents come from, those that can be read, the one that most lines come from first."""
    places = (place for document in documents for found in document.lines.values() for place in found)
    names = Counter(place.rpartition(":")[0] for place in places)
    found = []
    for name in sorted(names, key=lambda name: (-names[name], name)):
        path = Path(name)
        if path.is_file() and path.stat().st_size <= LARGEST:
            text = path.read_text(errors="replace")
            found.append(Document(name, text, {n: [f"{name}:{n + 1}"] for n in range(text.count("\n") + 1)}))
    return found
