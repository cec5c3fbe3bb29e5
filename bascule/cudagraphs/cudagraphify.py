"""CUDA graphs for what is compiled, as the option `cudagraphs` asks: what is replayed, what is not and why.

A forward and its backward belong together. What the forward saves lies in the pool of the recordings, at places that stay, so that the backward
takes it without a copy; where the forward is not replayed, neither is the backward.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from bascule.frontend.fx.graph_ends import inputs_of, outputs_of
from bascule.runtime.boxed import Boxed
from bascule.runtime.cudagraphs.recording import Direction, Limits, Recorder, Recording
from bascule.runtime.cudagraphs.replayed import Replayed, telling_backward

from ..compiled.compiled_graph import CompiledGraph, NotSerializable
from ..options import Options
from ..reporting.compile_record import UNREPLAYED, Record
from ..reporting.counters import count
from ..reporting.pool import Pool
from .capture_plan import Refusal, devices_of, mark, mark_gradients, recording_of
from .messages import ReplayReport, replay_text, user_name, warn
from .pool_size import pool_of
from .serialized import SerializedReplay
from .unsafe_operators import unrecordable

UNFOLLOWED = Refusal("its forward is not replayed")
_HERE = "this process cannot record CUDA graphs"


def forget_recordings() -> None:
    """Drops what this thread has recorded."""
    if "bascule.runtime.cudagraphs.cudagraph_trees" in sys.modules:
        sys.modules["bascule.runtime.cudagraphs.cudagraph_trees"].forget()


@dataclass
class ForwardDevice:
    """The number of the device on which a forward is replayed."""

    value: int | None = None

    def set(self, value: int | None) -> None:
        self.value = value


@dataclass
class Replays:
    """The state that graphs of one Dynamo graph share. `names`: the user's names of its inputs."""

    options: Options
    names: list[str] = field(default_factory=list)
    forward: Any = field(default_factory=ForwardDevice)  # or Inductor's class of the same attributes
    recorder: Recorder | None = None
    saved: set[str] = field(default_factory=set)  # names of values of the forward that lie at places that stay

    @staticmethod
    def of(gm: torch.fx.GraphModule, options: Options) -> "Replays":
        """For `gm`, as Dynamo made it."""
        return Replays(options, names=[user_name(node) for node in inputs_of(gm.graph)])

    def direction(
        self, gm: torch.fx.GraphModule, direction: Direction, static: Sequence[int] | None = None
    ) -> "Replay | None":
        """For `gm`, one of the graphs; None where nothing is replayed. `static`: numbers of the inputs that stay, if the caller knows them."""
        if not self.are_for(gm):
            return None
        if static is None and direction != "backward":
            from bascule.runtime.cudagraphs.cudagraph_trees import static_input_numbers

            static = static_input_numbers()
        inputs = inputs_of(gm.graph)
        stays = (n in static if static is not None else node.name in self.saved for n, node in enumerate(inputs))
        mark(gm, stays, [] if direction == "backward" else self.names)
        if direction == "backward":
            mark_gradients(gm, self.names)
        return Replay(self, direction, self.trees())

    def are_for(self, gm: torch.fx.GraphModule) -> bool:
        """Whether `gm` is to be replayed."""
        return self.options.cudagraphs and self.unreplayed(gm) is None

    def unreplayed(self, gm: torch.fx.GraphModule) -> str | None:
        """Why nothing of `gm` would be replayed, if that is plain."""
        if self.options.nan_asserts:
            return "the option 'nan_asserts' looks at values between kernels"
        if self.options.target == "interpret":
            return "its kernels are interpreted"
        return None if devices_of(gm.graph) else "nothing of it runs on a GPU"

    def trees(self) -> Recorder:
        """The recorder: PyTorch's cudagraph trees."""
        if self.recorder is None:
            from bascule.runtime.cudagraphs import cudagraph_trees

            self.recorder = cudagraph_trees
        return self.recorder

    def anew(self) -> "Replays":
        """For the same graphs, of which nothing is replayed yet."""
        return replace(self, forward=ForwardDevice(), saved=set())

    def restored(self, call: Boxed, serialized: SerializedReplay, direction: Direction, record: Record) -> Boxed:
        """`call`, a graph or a subgraph that was compiled elsewhere, as `serialized` says; the forward comes first. `record` is told."""
        found = serialized.what
        if isinstance(found, Recording):
            reason = self.trees().unavailable()
            if direction == "backward" and self.forward.value is None:
                found = UNFOLLOWED
            elif reason is not None:
                found = Refusal(reason)
        if isinstance(found, Recording):
            assert serialized.pool is not None
            return self.replayed(call, found, serialized.pool, record)
        self.told_of(found, record)
        return call

    def followed(self, call: Boxed, direction: Direction, *, replayed: bool) -> Boxed:
        """`call`, a compiled direction; a backward of which nothing is `replayed` tells the tree of its forward that it runs."""
        device = self.forward.value
        if direction != "backward" or device is None or replayed:
            return call
        return telling_backward(call, self.trees(), device)

    def replayed(
        self,
        call: Boxed,
        what: Recording,
        pool: Pool,
        record: Record,
        refused: Callable[[], str | None] = lambda: None,
    ) -> Replayed:
        """`call`, replayed as `what` says; `refused`: see `Replayed`."""
        held = self.options.cudagraph_bytes
        if held is None:
            held = self.trees().total_bytes(what.device) // 2
        if what.direction == "forward":
            self.forward.set(what.device)
        count("cudagraphs", "graphs")
        record.pool, record.replay = pool, replay_text(what, pool)
        limits, report = (
            Limits(self.options.cudagraph_shapes, held),
            ReplayReport(record.name, what.direction == "backward"),
        )
        return Replayed(call, what, limits, self.trees(), report, refused, pool.large)

    def told_of(self, refusal: Refusal, record: Record) -> None:
        """A graph is not replayed: said once, also of a backward that only follows its forward."""
        record.replay = f"{UNREPLAYED}: {refusal}"
        count("cudagraphs", f"{UNREPLAYED}: {refusal.reason}")
        if refusal != UNFOLLOWED and record.fallback is None:  # else another warning has said it
            warn(f"{record.name} is not replayed as a CUDA graph: {refusal}")


@dataclass
class Replay:
    """The recordings of one direction."""

    shared: Replays
    direction: Direction
    recorder: Recorder
    replayed: int = 0  # how many graphs, or parts of one

    @property
    def _follows(self) -> bool:
        """Whether there is a forward to follow: that of a backward which is replayed."""
        return self.direction != "backward" or self.shared.forward.value is not None

    def apart(self, gm: torch.fx.GraphModule) -> dict[torch.fx.Node, str]:
        """The nodes around which `gm` is to be compiled in parts, each of which can be replayed; with the reasons."""
        return unrecordable(gm.graph) if self._follows else {}

    def of(self, graph: CompiledGraph, gm: torch.fx.GraphModule, record: Record) -> CompiledGraph:
        """`graph`, the compiled `gm`, replayed; as it is, after one warning, where that cannot be."""
        what, serialized = self._recording(graph, gm, record), graph.serialized
        if isinstance(what, Recording):
            self.replayed += 1
            made = {x.name for x in outputs_of(gm.graph) if isinstance(x, torch.fx.Node)}
            if self.direction == "forward":
                self.shared.saved |= made
                self.shared.saved |= {x.name for n, x in enumerate(inputs_of(gm.graph)) if n in what.static}
            pool = pool_of(what, gm, record.summary, getattr(graph.call, "nullable", ()))
            replayed = self.shared.replayed(graph.call, what, pool, record, partial(self._refused, graph, record, made))
            if not isinstance(serialized, NotSerializable):
                serialized = replace(serialized, replay=SerializedReplay(what, pool))
            return replace(graph, call=replayed, serialized=serialized, finish=None)
        if what is None:
            return graph
        self.shared.told_of(what, record)
        if isinstance(serialized, NotSerializable):
            return graph
        here = self.recorder.unavailable() is not None  # what only this process cannot do is no part of what is kept
        return replace(
            graph, serialized=NotSerializable(_HERE) if here else replace(serialized, replay=SerializedReplay(what))
        )

    def _refused(self, graph: CompiledGraph, record: Record, made: set[str]) -> str | None:
        """Why `graph` is not recorded after all: its kernels have been compiled while PyTorch went on. `made`: names of what it returns."""
        graph.finished()
        why = self._failed(record)
        if why is None:
            return None
        record.replay = f"{UNREPLAYED}: {why}"
        self.replayed -= 1
        if self.direction == "forward":
            self.shared.saved -= made
            if not self.replayed:
                self.shared.forward.set(None)
        return str(why)

    def _failed(self, record: Record) -> Refusal | None:
        if not self._follows:
            return UNFOLLOWED
        if record.fallback is not None:
            return Refusal("it was not compiled")
        if record.refused:
            return Refusal("a kernel of it did not compile, and PyTorch computes it otherwise")
        return None

    def _recording(self, graph: CompiledGraph, gm: torch.fx.GraphModule, record: Record) -> Recording | Refusal | None:
        failed = self._failed(record)
        if failed is not None:
            return failed
        summary = record.summary
        if summary is not None and not (summary.launches or summary.aten):
            return None
        reason = self.recorder.unavailable()
        if reason is not None:
            return Refusal(reason)
        return recording_of(gm, record.name, self.direction, tuple(graph.constants))

    def finished(self, graph: CompiledGraph) -> CompiledGraph:
        """The compiled direction: see `Replays.followed`."""
        call = self.shared.followed(graph.call, self.direction, replayed=self.replayed > 0)
        return graph if call is graph.call else replace(graph, call=call, finish=None)
