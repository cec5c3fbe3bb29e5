"""Where the trace at hand is looked for, and put: what AOTAutograd's cache is told, without what names its internals."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from torch.fx import GraphModule


@dataclass(frozen=True)
class Result:
    """The result of tracing and compiling. `keys`: the compiled graphs' own records (`KEPT`), forward first. `guards`: on the symbols of the
    inputs, an expression; None or empty where there are none. `content`: the rest, for `restored`."""

    keys: tuple[Any, ...]
    guards: str | None
    content: bytes


class Lookup(Protocol):
    """Where results of one compile are looked for and put."""

    def load(self, gm: GraphModule, args: Sequence[Any], aot_config: Any) -> Callable[..., Any] | None:
        """Loads and restores the result for an equal graph; None on a miss. Raises `NotKeyed` for a graph for which the cache is not used."""
        ...

    def decompositions(self) -> dict[Any, Callable]:
        """For tracing, when nothing was found."""
        ...

    def save(self, result: Result) -> None:
        """Keeps what `gm` of `load` came to."""
        ...

    def restarted(self, names: Sequence[str]) -> None:
        """Keeps that the trace of `gm` was given up, for `restart` of `names`; `load` does the same from then on."""
        ...

    def refuse(self, reason: str) -> None:
        """Notes that nothing is loaded or kept, and why."""
        ...


@dataclass(frozen=True)
class AtMiss:
    """`lookup`, after whose miss `begin` is called, with the decompositions, before the graph is traced."""

    lookup: Lookup
    begin: Callable[[dict[Any, Callable]], None]

    def decompositions(self) -> dict[Any, Callable]:
        found = self.lookup.decompositions()
        self.begin(found)
        return found

    def load(self, gm: GraphModule, args: Sequence[Any], aot_config: Any) -> Callable[..., Any] | None:
        return self.lookup.load(gm, args, aot_config)

    def save(self, result: Result) -> None:
        self.lookup.save(result)

    def restarted(self, names: Sequence[str]) -> None:
        self.lookup.restarted(names)

    def refuse(self, reason: str) -> None:
        self.lookup.refuse(reason)


current: ContextVar[Lookup | None] = ContextVar("current", default=None)


@contextmanager
def in_turn(lookup: Lookup | None) -> Iterator[None]:
    """`lookup` is the one at hand in this thread; None: there is none, whatever was before."""
    token = current.set(lookup)
    try:
        yield
    finally:
        current.reset(token)
