"""The runner of passes over FX graphs: stage by stage, each pass timed, watched and recorded."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter

from torch.fx import GraphModule

from .registry import FxPass, passes_at


@dataclass
class FxRun:
    """One run of a pass. Nodes are those of the graph and of the graphs that it calls."""

    name: str
    stage: str
    number: int  # among the runs of one pipeline
    before: int  # nodes
    after: int = 0
    changes: int = 0  # places that it changed
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)  # what it left as it was though it looked for it, and why

    def __str__(self) -> str:
        places = f"{self.changes} {'place' if self.changes == 1 else 'places'}"
        told = f"{self.name} ({self.stage}): {places}, {self.before} -> {self.after} nodes, {1e3 * self.seconds:.1f} ms"
        return "; ".join([told, *self.notes])


_at_work: ContextVar[FxRun | None] = ContextVar("run of an FX pass", default=None)


def note(text: str) -> None:
    """Adds to the notes of the run in which it is called; outside of a run, to none."""
    run = _at_work.get()
    if run is not None:
        run.notes.append(text)


# Stands around a run of a pass on a graph. The run is told in full when it is left.
Watch = Callable[[FxRun, GraphModule], AbstractContextManager[None]]


def _unwatched(run: FxRun, gm: GraphModule) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass
class FxPipeline:
    """The passes over the graphs of one compile. `settings`: what holds of `NEEDS`; `disabled`: names of passes that do not run;
    `interpreted`: an interpreter on the CPU stands for a GPU."""

    settings: frozenset[str] = frozenset({"philox"})
    disabled: Collection[str] = ()
    watch: Watch = _unwatched
    interpreted: bool = False
    runs: list[FxRun] = field(default_factory=list)

    def run(self, stage: str, gm: GraphModule, *settings: str) -> int:
        """Runs the passes of `stage` on `gm`, in order; `settings` hold for this graph, too. Returns how many places they changed."""
        hold = self.settings.union(settings)
        return sum(
            self._run(each, stage, gm)
            for each in passes_at(stage)
            if each.name not in self.disabled and hold.issuperset(each.needs)
        )

    def _run(self, fx_pass: FxPass, stage: str, gm: GraphModule) -> int:
        function = fx_pass.function
        run = FxRun(fx_pass.name, stage, len(self.runs), _nodes(gm))
        self.runs.append(run)
        with self.watch(run, gm):
            start, token = perf_counter(), _at_work.set(run)
            try:
                devices = {"devices": ("cpu",)} if self.interpreted and fx_pass.interpreted else {}
                run.changes = int(function(gm if fx_pass.on_module else gm.graph, **devices))
            except Exception as error:
                error.add_note(f"in the FX pass '{run.name}'")
                raise
            finally:
                _at_work.reset(token)
            run.seconds, run.after = perf_counter() - start, _nodes(gm)
        return run.changes


def _nodes(gm: GraphModule) -> int:
    return sum(len(module.graph.nodes) for module in gm.modules() if isinstance(module, GraphModule))
