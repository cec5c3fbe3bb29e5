"""A step of training as one rank runs it: calls of compiled graphs one after the other, and collectives that PyTorch's hooks begin between them.

Hooks begin a collective on a stream of its own, which waits for some place of the stream that computes. The host comes by earlier, and is not in
the way, unless it says when it does. Collectives of one group run in the order in which the host begins them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from ..mlir import ir
from .calls import NAMESPACE, Collectives, Start, collectives_of
from .costs import CallCosts, Costs
from .simulation import Filling, Prediction, predict

BEGINNING = -1  # the place before all that computes
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"


@dataclass(frozen=True)
class Work:
    """An op that computes, and how it fills the multiprocessors, if it is a product."""

    seconds: float
    filling: Filling | None = None


@dataclass(frozen=True)
class Begin:
    """A collective of a compiled graph begins; `number` is the graph's. `bytes`: of the whole tensor; None where a size is a symbol."""

    number: int
    collective: str
    bytes: int | None
    ranks: int | None


@dataclass(frozen=True)
class Wait:
    """A collective of a compiled graph is waited for."""

    number: int


@dataclass(frozen=True)
class Host:
    """The host launches what follows so many seconds after the step began, or later."""

    seconds: float


Call = Work | Begin | Wait
BEGINS, WAITS = "begins", "waits"


@dataclass
class Timeline:
    """Things that are done, by number, and the numbers in the order of the stream that computes."""

    costs: Costs
    order: list[int] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)  # of a start and of a wait too, which take no time
    found: Collectives = field(default_factory=Collectives)
    copies: dict[int, float] = field(default_factory=dict)
    moves: set[int] = field(default_factory=set)
    host: float = 0.0  # when it comes by what is added now
    launched: dict[int, float] = field(default_factory=dict)

    @property
    def place(self) -> int:
        """The last thing on the stream that computes, as it is now."""
        return self.order[-1] if self.order else BEGINNING

    @property
    def collectives(self) -> list[tuple[str, int | None]]:
        """Kinds and bytes in the order in which the host begins them."""
        return [(start.name, start.bytes) for start in self.found.starts.values()]

    def compute(self, seconds: float, filling: Filling | None = None) -> None:
        """An op on the stream that computes."""
        self._add(Work(seconds, filling))

    def copy(self, bytes_: float, *, kernel: bool = True) -> None:
        """Reads so many bytes and writes them: a kernel, or a copy of the driver's."""
        if bytes_:
            self.compute(self.costs.copied(bytes_))
            if not kernel:
                self.moves.add(self.place)

    def call(self, graph: Iterable[Call | Host]) -> None:
        """A compiled graph, with its own collectives."""
        begun: dict[int, int] = {}
        for each in graph:
            if isinstance(each, Host):
                self.host = each.seconds
            elif isinstance(each, Work):
                self._add(each)
            elif isinstance(each, Begin):
                begun[each.number] = self.begin(each.collective, each.bytes, each.ranks)
            else:
                self.wait(begun[each.number])

    def begin(
        self, collective: str, bytes_: int | None, ranks: int | None, *, after: int | None = None, copied: float = 0
    ) -> int:
        """A collective begins; gives its number. `bytes_`: of the whole tensor. It waits for the place `after` of the stream that computes, or
        for where that is now. Before it so many bytes are `copied`."""
        last = next(reversed(self.found.starts), BEGINNING)
        places = [BEGINNING, *self.order]
        at = len(self.order) if after is None else max(places.index(after), places.index(last))
        number = len(self.works)
        self.order.insert(at, number)
        self._launch(Work(0.0))
        kind = f"{NAMESPACE}{collective}.default"
        self.found.starts[number] = Start(number, kind, (), "", bytes_, bytes_, True, ranks)
        if copied:
            self.copies[number] = self.costs.copied(copied)
        return number

    def wait(self, start: int) -> None:
        """The stream that computes waits for a collective."""
        self.found.waits[len(self.works)] = start
        self._add(Work(0.0))

    def _add(self, work: Work) -> None:
        self.order.append(len(self.works))
        self._launch(work)

    def _launch(self, work: Work) -> None:
        if self.host:
            self.launched[len(self.works)] = self.host
        self.works.append(work)

    def predicted(self) -> Prediction:
        """The step, simulated."""
        alone = {number: self.costs.collective(start) for number, start in self.found.starts.items()}
        filling = {number: work.filling for number, work in enumerate(self.works) if work.filling is not None}
        times = self.costs.times([work.seconds for work in self.works], alone, filling)
        return predict(self.order, self.found, replace(times, copies=self.copies, moves=self.moves, host=self.launched))


def plain(call: Call) -> tuple[Any, ...]:
    """A call as numbers and texts, which JSON takes."""
    if isinstance(call, Begin):
        return (BEGINS, call.number, call.collective, call.bytes, call.ranks)
    if isinstance(call, Wait):
        return (WAITS, call.number)
    filling = call.filling
    return (call.seconds,) if filling is None else (call.seconds, *astuple(filling))


def call_of(told: Sequence[Any]) -> Call:
    """The call that `plain` told."""
    first, *others = told
    if first == BEGINS:
        return Begin(*others)
    if first == WAITS:
        return Wait(*others)
    return Work(first, Filling(*others) if others else None)


def calls_of(graph: ir.Operation, table: ir.SymbolTable, costs: CallCosts) -> tuple[Call, ...]:
    """The calls of a graph function of the kernel or program stage, in order, with what they take."""
    ops: Sequence[ir.Operation] = [op.operation for op in graph.regions[0].blocks[0].operations]
    found = collectives_of(ops, table)
    calls: list[Call] = []
    for number, op in enumerate(ops):
        if number in found.starts:
            start = found.starts[number]
            calls.append(Begin(number, start.name, start.bytes, start.ranks))
        elif number in found.waits:
            calls.append(Wait(found.waits[number]))
        else:
            seconds, filling = costs.call(op, table)
            if seconds:
                calls.append(Work(seconds, filling))
    return tuple(calls)
