"""Reports of each run of an FX pass: its time, and the graph before and after, for logs, traces, dumps and prints."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch.fx import GraphModule

from bascule.frontend.fx_pipeline.pipeline import FxRun

from ..options import ALL, Options
from . import logs
from .compile_record import log
from .counters import count
from .dump_files import written


@dataclass(frozen=True)
class FxWatch:
    """Stands around each run of a pass over the graphs of what is called `name`.

    The option `print_fx_passes` has the graph printed before and after; `dump` has it written, for a pass that changes it, or fails.
    """

    name: str
    options: Options

    @contextmanager
    def __call__(self, run: FxRun, gm: GraphModule) -> Iterator[None]:
        printed = not {ALL, run.name}.isdisjoint(self.options.print_fx_passes)
        shown = printed or self.options.dump is not None
        before = logs.readable(gm) if shown else ""
        if printed:
            self._print("before", run, before)
        try:
            with logs.timed(run.name):
                yield
        except Exception:
            self._dump("before", run, before)
            raise
        log.debug("%s: %s", self.name, run)
        for note in run.notes:
            count("fx_passes", f"{run.name}: {note}")
        after = logs.readable(gm) if shown and run.changes else before
        if printed:
            self._print("after", run, after if run.changes else "as before")
        if run.changes:
            logs.trace(f"bascule_{self.name}_fx_{run.number:02}_{run.name}", lambda: logs.readable(gm))
            self._dump("before", run, before)
            self._dump("after", run, after)

    def _print(self, moment: str, run: FxRun, text: str) -> None:
        print(f"# -----# FX Graph {moment} {run.name} ({self.name}, {run.stage}) #----- #\n{text}", file=sys.stderr)

    def _dump(self, moment: str, run: FxRun, text: str) -> None:
        if self.options.dump is not None:
            written(Path(self.options.dump) / self.name / "fx" / f"{run.number:02}-{run.name}.{moment}.py", text)
