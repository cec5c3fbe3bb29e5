"""Programs that were planned while a memory budget was kept, left for the compile of the same graphs: their passes need not run twice."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from time import perf_counter
from typing import Any

from ..dialect.ir.functions import REMARKS, graph_functions
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline

MOST = 4  # programs that are left at one time: of two steps


@dataclass(frozen=True)
class Planned:
    """`module`: what the passes left of a graph; `digest`: of the graph and the passes; `seconds`: that each took."""

    digest: str
    module: ir.Module
    seconds: dict[str, float]


@dataclass
class Times:
    """The seconds of each pass of a pipeline, by an observer of it."""

    seconds: dict[str, float] = field(default_factory=dict)
    begun: float = 0.0

    def observe(self, when: str, stage: Any, module: ir.Module) -> None:
        """For `Pipeline.run`."""
        if when == "before":
            self.begun = perf_counter()
        else:
            self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + perf_counter() - self.begun


_left: dict[str, Planned] = {}
_lock = Lock()


def leave(programs: Iterable[Planned]) -> None:
    """Has them taken by whoever compiles their graphs; the oldest ones go where there are more than `MOST`."""
    with _lock:
        for each in programs:
            _left[each.digest] = each
        for digest in list(_left)[:-MOST]:
            del _left[digest]


def taken(module: ir.Module, pipeline: Pipeline) -> Planned | None:
    """The program that `pipeline` makes of the imported graph `module`, with its remarks, where it was left: it is the caller's then."""
    with module.context:
        told = [function.attributes[REMARKS] for function in graph_functions(module) if REMARKS in function.attributes]
        for function in graph_functions(module):
            if REMARKS in function.attributes:
                del function.attributes[REMARKS]
        digest = digest_of(module, pipeline)
        for function, remarks in zip(graph_functions(module), told):
            function.attributes[REMARKS] = remarks
    with _lock:
        found = _left.pop(digest, None)
    if found is not None and told:
        with found.module.context:
            (graph,) = graph_functions(found.module)
            known = list(graph.attributes[REMARKS]) if REMARKS in graph.attributes else []
            graph.attributes[REMARKS] = ir.ArrayAttr.get([*ir.Attribute.parse(str(told[0])), *known])
    return found


def digest_of(module: ir.Module, pipeline: Pipeline) -> str:
    """Digest of an imported graph, with its locations, and the passes."""
    text = module.operation.get_asm(enable_debug_info=True)
    return sha256(f"{pipeline}\n{text}".encode()).hexdigest()
