"""What a pipeline prints while it runs: the IR before and after passes, and the time each took."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from ..mlir import ir
from ..passes.pipeline import Stage


@dataclass(frozen=True)
class PrintIR:
    """Observer that prints the module `when` ("before" or "after") the passes in `names` run, all passes if `names` is None."""

    when: str
    names: Sequence[str] | None = None
    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def __call__(self, when: str, stage: Stage, module: ir.Module) -> None:
        if when == self.when and (self.names is None or stage.name in self.names):
            print(f"// -----// IR Dump {when.capitalize()} {stage.name} //----- //", file=self.stream)
            print(module, file=self.stream)


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
