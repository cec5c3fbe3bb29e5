"""The passes that a file's first RUN line with any names."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bascule.dialect.tools.command_line import SWITCHES, WITH_VALUE

_LINE = re.compile(r"RUN:[ \t]*(.*)")
_ENDS = {"|", "||", "&&", ";", ">", "2>&1", "2>", "&>"}
_LOADS = {"load-pass", "load-hooks"}
_KEPT = {*_LOADS, "pass-pipeline", "allow-unregistered-dialect"}
# Options of `bascule-run` that are no passes.
_OF_RUN = {
    *("function", "seed", "inputs", "shapes", "pipeline", "tolerance", "print", "compare", "bisect", "interpret-only"),
    *("grad", "help", "h"),
}


@dataclass(frozen=True)
class RunLine:
    """`words`: flags of `bascule-opt` for the passes alone; `line` counts from 1."""

    line: int
    words: tuple[str, ...]

    @property
    def loads(self) -> bool:
        """Whether code that the file names is loaded for the passes."""
        return any(_flag(word) in _LOADS for word in self.words)


def first_run_line(text: str, path: str) -> RunLine | None:
    """`path`: the file's, for what lit puts in for `%s`, `%S` and `%tests`."""
    for line, command in _commands(text):
        words = tuple(_passes(_words(command, path)))
        if any(_flag(word) not in _KEPT - {"pass-pipeline"} for word in words):
            return RunLine(line, words)
    return None


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """The commands of RUN lines, each with the number of its first line; a line that ends in `\\` goes on in the next RUN line."""
    begun: tuple[int, str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.search(line)
        if match is None:
            continue
        at, before = begun or (number, "")
        command = before + match[1].rstrip()
        if command.endswith("\\"):
            begun = at, command[:-1]
        else:
            begun = None
            yield at, command


def _words(command: str, path: str) -> list[str]:
    """The words after the first tool of ours, up to the end of its command."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote that nothing closes
        return []
    tools = [number for number, word in enumerate(words) if Path(word).name in ("bascule-opt", "bascule-run")]
    if not tools:
        return []
    behind = words[tools[0] + 1 :]
    end = next((number for number, word in enumerate(behind) if word in _ENDS), len(behind))
    return [_substituted(word, Path(path)) for word in behind[:end]]


def _substituted(word: str, path: Path) -> str:
    """Puts in what lit does."""
    for name, text in (("%tests", suite_of(path)), ("%S", path.parent), ("%p", path.parent), ("%s", path)):
        word = word.replace(name, str(text))
    return word


def suite_of(path: Path) -> Path:
    """The folder of the `lit.cfg` that a file is below, whose Python modules RUN lines may name; else the file's."""
    named = (folder for folder in path.parents for end in ("", ".py") if (folder / f"lit.cfg{end}").exists())
    return next(named, path.parent)


def _passes(words: list[str]) -> Iterator[str]:
    """The words that name passes, or that passes are loaded by."""
    given = iter(words)
    for word in given:
        name = _flag(word)
        if name is None:
            continue
        value = word.partition("=")[2] if "=" in word else None
        if value is None and name in {*WITH_VALUE, "pipeline", "o"}:
            value = next(given, "")
        if name == "pipeline":
            yield from () if value == "default" else [f"--pass-pipeline={value}"]
        elif name in _KEPT:
            yield f"--{name}={value}" if name in WITH_VALUE else word
        elif name not in {*SWITCHES, *WITH_VALUE, *_OF_RUN, "o"}:
            yield word


def _flag(word: str) -> str | None:
    """The name of a flag; None for a word that is none."""
    return word.lstrip("-").partition("=")[0] if word.startswith("-") and word != "-" else None
