"""Instrumentation of a pipeline: the IR before and after passes, the time of each, the operations that each left."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from ..mlir import debug_upstream, ir
from ..passes.base import DEBUG_LOG
from ..passes.pipeline import Stage
from ..printing.forms import printed
from ..remarks.attribute import remarks


@dataclass
class PrintIR:
    """Observer that prints the module around the passes in `names`, all passes if that is None.

    `when` is "before" or "after", "change" (after a pass that changed the text) or "failure" (what a pass that failed left). `printing` are
    those of `printed`.
    """

    when: str
    names: Sequence[str] | None = None
    printing: Mapping[str, Any] = field(default_factory=dict)
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _before: str = ""  # with "change": the text before the pass

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        moment = "after" if self.when == "change" else self.when
        if self.names is not None and stage.name not in self.names:
            return
        if self.when == "change" and when == "before":
            self._before = str(module)
        elif when == moment and not (self.when == "change" and str(module) == self._before):
            what = f"After {stage.name} Failed" if when == "failure" else f"{moment.capitalize()} {stage.name}"
            print(f"// -----// IR Dump {what} //----- //", file=self.stream)
            print(printed(module, self.printing), file=self.stream)


@dataclass
class Debug:
    """Observer that prints what the passes in `names` say (`Pass.debug`), the operations that they change, and the remarks that they leave.

    MLIR's own passes say something in a debug build of it alone.
    """

    names: Sequence[str]
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _before: Counter[str] = field(default_factory=Counter)
    _known: Counter[str] = field(default_factory=Counter)  # remarks before the pass

    def __post_init__(self) -> None:
        for name in self.names:
            log = logging.getLogger(f"{DEBUG_LOG}.{name}")
            log.setLevel(logging.DEBUG)
            handler = logging.StreamHandler(self.stream)
            handler.setFormatter(logging.Formatter(f"[{name}] %(message)s"))
            log.handlers, log.propagate = [handler], False
        debug_upstream(self.names)

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        if stage.name not in self.names:
            return
        if when == "before":
            self._before, self._known = _operations(module), Counter(map(str, remarks(module)))
        elif when == "after":
            for line in _changes(self._before, _operations(module)) or ["no operation made or gone"]:
                print(f"[{stage.name}] {line}", file=self.stream)
            for remark in Counter(map(str, remarks(module))) - self._known:
                print(f"[{stage.name}] remark: {remark}", file=self.stream)


@dataclass
class Timing:
    """Observer that adds up the wall-clock seconds of each pass, in the order they first ran."""

    seconds: dict[str, float] = field(default_factory=dict)
    _start: float = 0.0

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        del module
        now = time.perf_counter()
        if when == "before":
            self._start = now
        else:
            self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + now - self._start

    def __str__(self) -> str:
        total = sum(self.seconds.values()) or 1.0
        rows = [f"  {s:8.4f} ({100 * s / total:5.1f}%)  {name}" for name, s in self.seconds.items()]
        return "\n".join(
            ["... Execution time report (wall clock, seconds) ...", *rows, f"  {total:8.4f} (100.0%)  Total"]
        )


@dataclass
class Statistics:
    """Observer that counts the operations of the module before the first pass and after each."""

    counts: list[tuple[str, Counter[str]]] = field(default_factory=list)  # pass, operations by name after it

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        if when == "before" and not self.counts:
            self.counts.append(("(input)", _operations(module)))
        elif when == "after":
            self.counts.append((stage.name, _operations(module)))

    def __str__(self) -> str:
        lines = ["... Pass statistics report (operations) ..."]
        previous: Counter[str] = Counter()
        for name, found in self.counts:
            lines.append(f"  {found.total():8}  {name}")
            lines += [f"            {change}" for change in _changes(previous, found) if previous]
            previous = found
        return "\n".join(lines)


def _changes(before: Counter[str], after: Counter[str]) -> list[str]:
    changed = sorted(key for key in {*before, *after} if before[key] != after[key])
    return [f"{key}: {before[key]} -> {after[key]}" for key in changed]


def _operations(module: ir.Module) -> Counter[str]:
    names: Counter[str] = Counter()

    def count(operation: ir.Operation) -> ir.WalkResult:
        names[operation.name] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(count)
    return names
