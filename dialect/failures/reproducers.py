"""Reproducers: a module's text with the pipeline to run on it at its end, as `mlir-opt` writes and reads them.

The local form has the IR just before the pass that failed, and that pass alone.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..interrupts import pass_on
from ..mlir import ir
from ..user_classes import specification
from .culprits import is_foreign

_STRING = r'"(?:[^"\\]|\\.)*"'
_BLOCK = re.compile(rf"\{{-#[^#]*?\bmlir_reproducer\s*:\s*\{{((?:{_STRING}|[^\"}}])*)\}}.*?#-\}}", re.DOTALL)
_INNER = rf'(?:{_STRING}|[^"{{}}])*'
_EXTERNAL = re.compile(rf",?\s*\bexternal_resources\s*:\s*\{{{_INNER}(?:\{{{_INNER}\}}{_INNER})*\}}\s*,?")
_ENTRY = re.compile(rf"(\w+)\s*:\s*({_STRING})")


@dataclass(frozen=True)
class Reproducer:
    """A pipeline, whether to verify after each pass, and the specs `module:Class` of the user's passes in it, and of hooks if there are any."""

    pipeline: str
    verify_each: bool = True
    load_pass: tuple[str, ...] = ()
    load_hooks: str = ""

    def at_end_of(self, text: str) -> str:
        """The text of a module with this behind it, and a first line that says how to run it."""
        entries = [f"pipeline: {json.dumps(self.pipeline)}", f"verify_each: {json.dumps(self.verify_each)}"]
        if self.load_pass:  # no key of mlir-opt's, which does not know these passes either
            entries.append(f"load_pass: {json.dumps(','.join(self.load_pass))}")
        if self.load_hooks:
            entries.append(f"load_hooks: {json.dumps(self.load_hooks)}")
        inner = ",\n".join(f"      {entry}" for entry in entries)
        block = f"{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n{inner}\n    }}\n  }}\n#-}}"
        return f"// RUN: bascule-opt %s --run-reproducer\n{text.rstrip()}\n\n{block}\n"


def for_stage(stage: Any, verify_each: bool = True, hooks: Any = None) -> Reproducer:
    """The reproducer of one pass, whose decisions `hooks` take."""
    load_hooks = "" if hooks is None else specification(type(hooks))
    return Reproducer(f"builtin.module({stage.spelling()})", verify_each, specs([stage]), load_hooks)


def specs(stages: Sequence[Any]) -> tuple[str, ...]:
    """The values of `--load-pass` for the passes among `stages` that are from outside."""
    classes = {type(stage) for stage in stages if is_foreign(stage)}
    return tuple(sorted(map(specification, classes)))


def taken_from(text: str) -> tuple[str, Reproducer | None]:
    """The text of a module without the reproducer at its end, each line where it was, and the reproducer, if it has one with a pipeline."""
    match = _BLOCK.search(text)
    if match is None:
        return text, None
    strings = {key: json.loads(value) for key, value in _ENTRY.findall(match[1])}
    if "pipeline" not in strings:
        return text, None
    verify = re.search(r"\bverify_each\s*:\s*false\b", match[1]) is None
    loaded = tuple(filter(None, strings.get("load_pass", "").split(",")))
    others = _EXTERNAL.sub(
        "", match[0], count=1
    )  # the elements of constants, which mlir-opt writes into the same block
    kept = others if re.search(r"\w", others) else ""
    found = Reproducer(strings["pipeline"], verify, loaded, strings.get("load_hooks", ""))
    return text[: match.start()] + kept + text[match.end() :], found


@dataclass
class LocalReproducer:
    """Observer of a pipeline that writes `path` before each pass: it is there when one fails or ends the process, and is removed otherwise."""

    path: Path
    verify_each: bool = True
    hooks: Any = None
    _kept: bool = False  # a pass failed: the next module's do not write over it

    def __call__(self, when: str, stage: Any, module: ir.Module) -> None:
        if self._kept:
            return
        if when == "before":
            text = module.operation.get_asm(enable_debug_info=True)
            try:
                self.path.write_text(for_stage(stage, self.verify_each, self.hooks).at_end_of(text))
            except OSError as error:
                pass_on(error)
                raise UserError(f"cannot write '{self.path}': {error.strerror}", location="the reproducer") from None
        elif when == "after" and self.path.is_file():  # a device or a pipe is not ours to remove
            self.path.unlink()
        self._kept = when == "failure"
