"""A compiled graph whose machine code other threads still make: what is left of compiling it is done at its first call.

Meanwhile PyTorch writes guards, and runs what comes before.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from bascule.runtime.boxed import Boxed, boxed

from ..errors import UnsupportedError
from .compiled_graph import CompiledGraph


class FinishedAtFirstCall:
    """A boxed function: what `finish` returns, which is called once."""

    def __init__(self, finish: Callable[[], Boxed]):
        boxed(self)
        self._finish: Callable[[], Boxed] | None = finish
        self._finished: Boxed | None = None
        self._finishing = Lock()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        return (self._finished or self.finished())(args)

    @property
    def nullable(self) -> tuple[int, ...]:
        """The numbers of the inputs whose address may be 0."""
        return getattr(self.finished(), "nullable", ())

    def finished(self) -> Boxed:
        """The finished function, made now if it was not."""
        with self._finishing:
            if self._finished is None:
                assert self._finish is not None
                self._finished = self._finish()
                self._finish = None  # and all it refers to: the graph, the IR
        return self._finished


def once_finished(graph: CompiledGraph, then: Callable[[CompiledGraph], CompiledGraph]) -> CompiledGraph:
    """`then(graph)`: at once, or when `graph` is finished where PyTorch's operators run it until then."""
    if graph.meanwhile is None or graph.finish is None:
        return replace(then(graph), meanwhile=graph.meanwhile)
    later = FinishedAtFirstCall(lambda: then(replace(graph, call=graph.finished(), finish=None)).finished())
    return replace(graph, call=later, finish=later.finished)


def unless_refused(graph: CompiledGraph, otherwise: Callable[[UnsupportedError], Boxed]) -> CompiledGraph:
    """`graph`; or what `otherwise` makes of the refusal, where passes refuse it while PyTorch's operators run it."""
    if graph.meanwhile is None or graph.finish is None:
        return graph

    def finish() -> Boxed:
        try:
            return graph.finished()
        except UnsupportedError as refusal:
            return otherwise(refusal)

    later = FinishedAtFirstCall(finish)
    return replace(graph, call=later, finish=later.finished)
