"""The runner of passes over FX graphs: stage by stage, each pass timed, watched and recorded."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
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

    def __str__(self) -> str:
        places = f"{self.changes} {'place' if self.changes == 1 else 'places'}"
        return f"{self.name} ({self.stage}): {places}, {self.before} -> {self.after} nodes, {1e3 * self.seconds:.1f} ms"


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
            start = perf_counter()
            try:
                devices = {"devices": ("cpu",)} if self.interpreted and fx_pass.interpreted else {}
                run.changes = int(function(gm if fx_pass.on_module else gm.graph, **devices))
            except Exception as error:
                error.add_note(f"in the FX pass '{run.name}'")
                raise
            run.seconds, run.after = perf_counter() - start, _nodes(gm)
        return run.changes


def _nodes(gm: GraphModule) -> int:
    return sum(len(module.graph.nodes) for module in gm.modules() if isinstance(module, GraphModule))
