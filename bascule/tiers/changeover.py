"""Which tier a call runs: PyTorch's operators, or the kernels once they are compiled.

A forward decides for its step, and changes over when the kernels of forward and backward are both there. Its backward follows it: of what a
forward by operators saved, one tensor carries a mark, by which the backward knows that it belongs to it. Hooks on saved tensors may give the
backward others, without the mark, or what another forward saved (a checkpoint's); but what a forward by operators saves lies in memory as a
compiled one leaves it, so that either backward can read it. A graph without a backward changes over at any call.
"""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter
from typing import Any

from torch.fx import GraphModule

from bascule.runtime.boxed import Boxed, boxed
from bascule.runtime.cudagraphs.recording import Direction

from ..compat.operators.saved_tensor_hooks import top_hooks
from ..compiled.compiled_graph import CompiledGraph
from ..reporting.compile_record import Record
from ..reporting.counters import count
from ..reporting.warnings_later import Warned, kept, warn
from . import background
from .saved_tensors import Saved, saved_for

MARK = "bascule_by_operators"  # attribute of a tensor that a forward by operators saved


def reached(point: str) -> None:
    """Tests take the place of this, to change over at `point`."""


class Told:
    """Records of what one graph came to, which are reported when it is known what ran it."""

    def __init__(self, on_record: Callable[[Record], None] | None):
        self.on_record = on_record
        self.records: list[Record] = []

    def __call__(self, record: Record) -> None:
        self.records.append(record)

    def report(self, text: str) -> None:
        for record in self.records:
            record.tier = text
            if self.on_record is not None:
                self.on_record(record)
        self.records.clear()  # they hold the IR


class Tiers:
    """Those of the graphs that come of one graph of Dynamo's: an inference, or a forward and its backward."""

    def __init__(self) -> None:
        self.graphs: dict[Direction, Tier] = {}
        self.changed = False  # forwards run kernels from now on
        self._lock = Lock()

    def of(
        self, graph: CompiledGraph, gm: GraphModule, name: str, direction: Direction, told: Told, at_once: str | None
    ) -> CompiledGraph:
        """`graph`, the compiled `gm`, run by operators until it is finished; as it is if nothing is left to wait for.

        `at_once`: why it was compiled before its first call, if it was.
        """
        ready = graph.finish is None or graph.meanwhile is None
        if ready:
            count("tiers", "graphs with kernels at once")
            told.report(at_once or "its kernels were there at once")
        if ready and direction == "inference":
            return graph
        tier = Tier(self, graph, gm, name, direction, told)
        self.graphs[direction] = tier
        if direction == "backward" and "forward" in self.graphs:
            saved = saved_for(self.graphs["forward"].gm, gm)
            self.graphs["forward"].saved = tier.saved = saved
        if ready:
            tier.kernels = graph.call
        else:
            count("tiers", "graphs compiled beside the program")
            background.enqueue(tier.compile)
        return CompiledGraph(tier, graph.serialized, graph.constants)

    def change(self) -> bool:
        """Changes over if that is possible now; returns whether kernels run."""
        if self.changed:
            return True
        needed: tuple[Direction, ...] = ("inference",) if "inference" in self.graphs else ("forward", "backward")
        with self._lock:
            found = [self.graphs[direction] for direction in needed if direction in self.graphs]
            if not self.changed and len(found) == len(needed) and all(tier.kernels is not None for tier in found):
                count("tiers", "graphs changed over", len(found))
                self.changed = True
        return self.changed

    def failure(self) -> BaseException | None:
        """The error that the options ask to be raised instead of going on."""
        return next((tier.failure for tier in self.graphs.values() if tier.failure is not None), None)

    def tell(self) -> None:
        """Gives the warnings of what was compiled since."""
        for tier in self.graphs.values():
            while tier.warned:
                with self._lock:
                    warned = [tier.warned.popleft()] if tier.warned else []  # else another thread gave it
                for text, category in warned:
                    warn(text, category, stacklevel=4)


class Tier:
    """One graph, with the boxed calling convention. `run` is what a call does, `kernels` what it does in the end, once that is compiled."""

    def __init__(
        self, shared: Tiers, graph: CompiledGraph, gm: GraphModule, name: str, direction: Direction, told: Told
    ):
        boxed(self)
        self.shared, self.graph, self.gm = shared, graph, gm
        self.name, self.direction, self.told = name, direction, told
        self.kernels: Boxed | None = None
        self.failure: BaseException | None = None
        self.warned: deque[Warned] = deque()
        self.saved: Saved | None = None
        self.calls = 0  # by operators
        self.run: Boxed = {"backward": self._following, "forward": self._leading, "inference": self._alone}[direction]

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        return self.run(args)

    def compile(self) -> None:
        """The work of the thread in the background."""
        start, found = perf_counter(), None
        with kept() as warned:
            try:
                found = self.graph.finished()
            except background.Abandoned:
                raise
            except BaseException as error:  # it is raised where a call is, and the thread goes on
                self.failure = error
        reason = self.failure or next((r.fallback for r in self.told.records if r.name == self.name), None)
        self.warned += warned
        spent = f"{perf_counter() - start:.2f} s, in which operators ran {self.calls} calls"
        if reason is None:
            self.told.report(f"its kernels were compiled beside the program in {spent}")
            self.kernels = found
        else:
            count("tiers", "graphs that stay with operators")
            self.told.report(f"it stays with operators: it was not compiled, in {spent}")

    def _operators(self, args: list[Any]) -> Sequence[Any]:
        """Runs the graph by operators, if anything is to be run by them; the second call shows that the first step is over."""
        self.calls += 1
        if self.calls > 1:
            background.begin()
        self.shared.tell()
        failure = self.shared.failure()
        if failure is not None:
            raise failure
        if self.graph.meanwhile is None:
            return self.graph.call(args)
        count("tiers", f"calls by operators: {self.direction}")
        return self.graph.meanwhile(args)

    def _alone(self, args: list[Any]) -> Sequence[Any]:
        reached("inference")
        if not self.shared.change():
            return self._operators(args)
        self.shared.tell()
        assert self.kernels is not None
        self.run = self.kernels
        return self.run(args)

    def _leading(self, args: list[Any]) -> Sequence[Any]:
        reached("forward")
        if self.shared.change():
            self.shared.tell()
            assert self.kernels is not None
            self.run = self.kernels
            return self.run(args)
        outputs = self._operators(args)
        reached("forward ran")
        return outputs if self.saved is None else self.saved.left(outputs, MARK, marked=top_hooks(True) is None)

    def _following(self, args: list[Any]) -> Sequence[Any]:
        reached("backward")
        if self.kernels is None or not self.shared.changed or (self.saved is not None and self.saved.has(args, MARK)):
            return self._operators(args)
        return self.kernels(args)
