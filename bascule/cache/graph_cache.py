"""The disk cache: an imported graph whose like was compiled before, in whatever process, is loaded instead of compiled.

What happened is counted: `hit`, `miss`, `stored`, and `bypass: reason`, `refused: reason` where the cache was not used. No state of the disk
changes results.
"""

from dataclasses import dataclass

import torch
from torch.fx import GraphModule

from ..dialect.interrupts import pass_on
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..options import Options
from ..reporting.counters import count
from ..reporting.graph_summary import Summary
from ..targets.base import Compiled, Target
from .disk.entry_paths import GRAPHS
from .graph_entry import Entry, SerializedGraph, bypassed, keep, read
from .graph_key import NotKeyed, key_of, numbered
from .stores.backed_store import BackedStore, store_of


@dataclass(frozen=True)
class Slot:
    """Where the graph at hand belongs in the cache: its key, and its source lines by their number in the IR."""

    kept_in: BackedStore
    key: str
    places: list[str]
    target: Target

    def load(self) -> Entry | None:
        """The graph, compiled before; None if it was not, or if what is there cannot be used."""
        return read(self.kept_in, self.key, self.places, self.target.name, self.target.index)

    def store(self, wrapper: str, compiled: Compiled, summary: Summary) -> bool:
        """Keeps a compiled graph, if its target can write down its kernels and the disk takes it."""
        try:
            kernels = self.target.saved(compiled)
        except OSError as reason:  # no file descriptor is left to write them down by: they run all the same
            pass_on(reason)
            count("cache", f"refused: {reason}")
            return False
        if kernels is None:
            return False
        return keep(self.kept_in, self.key, self.places, wrapper, kernels, summary)

    def serialized(self, nodes: int, subjects: tuple[str, ...], constants: tuple[torch.Tensor, ...]) -> SerializedGraph:
        """The serialized form of the graph, once it is stored here."""
        return SerializedGraph(self.key, self.places, self.target.name, self.target.index, nodes, subjects, constants)


def slot_for(gm: GraphModule, module: ir.Module, pipeline: Pipeline, options: Options, target: Target) -> Slot | None:
    """The slot of a graph that was just imported; None, and a counted reason, if the cache is not for it."""
    reason = bypassed(options)
    if reason is None and not target.cached:
        reason = f"the target '{target.name}'"
    graphs = store_of(GRAPHS)
    if reason is None and graphs is not None:
        try:
            text, places = numbered(module)
            machine = [target.name, sorted(target.machine.items())]
            return Slot(graphs, key_of(text, gm, pipeline, options, machine), places, target)
        except NotKeyed as why:
            reason = str(why)
    count("cache", f"bypass: {reason}")
    return None
