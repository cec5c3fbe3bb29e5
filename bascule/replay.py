"""CUDA graphs for what is compiled, as the option `cudagraphs` asks: what is replayed, what is not and why.

A forward and its backward belong together. What the forward saves lies in the pool of the recordings, at places that stay, so that the backward
takes it without a copy; where the forward is not replayed, neither is the backward.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bascule.runtime.replay import Boxed, Direction, Limits, Recorder, Recording, Replayed, telling_backward

from .counting import count
from .errors import ReplayWarning
from .options import Options
from .record import Record
from .recordings import Refusal, devices_of, mark, outputs_of, placeholders, recording_of
from .unrecordable import tensors, unrecordable


def forget_recordings() -> None:
    """Drops what this thread has recorded."""
    if "bascule.runtime.cudagraphs" in sys.modules:
        sys.modules["bascule.runtime.cudagraphs"].forget()


@dataclass
class ForwardDevice:
    """The number of the device on which a forward is replayed."""

    value: int | None = None

    def set(self, value: int | None) -> None:
        self.value = value


@dataclass
class Replays:
    """What the graphs share that one graph of Dynamo's becomes. `names`: what the user calls its inputs."""

    options: Options
    names: list[str] = field(default_factory=list)
    forward: Any = field(default_factory=ForwardDevice)  # or Inductor's class of the same attributes
    recorder: Recorder | None = None
    saved: set[str] = field(default_factory=set)  # names of values of the forward that lie at places that stay

    @staticmethod
    def of(gm: torch.fx.GraphModule, options: Options) -> "Replays":
        """For `gm`, as Dynamo made it."""
        return Replays(options, names=[_user_name(node) for node in placeholders(gm.graph)])

    def direction(
        self, gm: torch.fx.GraphModule, direction: Direction, static: Sequence[int] | None = None
    ) -> "Replay | None":
        """For `gm`, one of the graphs; None where nothing is replayed. `static`: numbers of the inputs that stay, if the caller knows them."""
        if not self.options.cudagraphs or self.options.target == "interpret" or not devices_of(gm.graph):
            return None
        if self.recorder is None:
            from bascule.runtime import cudagraphs

            self.recorder = cudagraphs
        if static is None and direction != "backward":
            from bascule.runtime.cudagraphs import static_input_numbers

            static = static_input_numbers()
        inputs = placeholders(gm.graph)
        stays = (n in static if static is not None else node.name in self.saved for n, node in enumerate(inputs))
        mark(gm, stays, [] if direction == "backward" else self.names)
        return Replay(self, direction, self.recorder)


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

    def of(self, call: Boxed, gm: torch.fx.GraphModule, record: Record) -> Boxed:
        """`call`, the compiled `gm`, replayed; as it is, after one warning, where that cannot be."""
        what = self._recording(call, gm, record)
        if isinstance(what, Recording):
            options = self.shared.options
            held = options.cudagraph_bytes
            if held is None:
                held = self.recorder.total_bytes(what.device) // 2
            self.replayed += 1
            if self.direction == "forward":
                self.shared.forward.set(what.device)
                self.shared.saved |= {x.name for x in outputs_of(gm.graph) if isinstance(x, torch.fx.Node)}
                self.shared.saved |= {x.name for n, x in enumerate(placeholders(gm.graph)) if n in what.static}
            count("cudagraphs", "graphs")
            record.replay = _told(what, gm, record)
            return Replayed(call, what, Limits(options.cudagraph_shapes, held), self.recorder, _Report(record.name))
        if what is not None:
            record.replay = f"not replayed: {what}"
            count("cudagraphs", f"not replayed: {what.reason}")
            if self._follows and record.fallback is None:  # else another warning has said it
                _warn(f"{record.name} is not replayed as a CUDA graph: {what}")
        return call

    def _recording(self, call: Boxed, gm: torch.fx.GraphModule, record: Record) -> Recording | Refusal | None:
        if not self._follows:
            return Refusal("its forward is not replayed")
        if record.fallback is not None:
            return Refusal("it was not compiled")
        if record.refused:
            return Refusal("a kernel of it did not compile, and PyTorch computes it otherwise")
        summary = record.summary
        if summary is not None and not (summary.launches or summary.aten):
            return None
        reason = self.recorder.unavailable()
        if reason is not None:
            return Refusal(reason)
        return recording_of(gm, record.name, self.direction, tuple(getattr(call, "constants", ())))

    def finished(self, call: Boxed) -> Boxed:
        """The compiled direction; a backward of which nothing is replayed tells the tree that its forward is recorded in that it runs."""
        device = self.shared.forward.value
        if self.direction == "backward" and device is not None and not self.replayed:
            return telling_backward(call, self.recorder, device)
        return call


@dataclass(frozen=True)
class _Report:
    """Counts what becomes of a graph's recordings, and warns."""

    name: str

    def recorded(self) -> None:
        count("cudagraphs", "recordings")

    def stopped(self, why: str) -> None:
        count("cudagraphs", "stopped")
        _warn(f"{self.name} is no longer recorded as a CUDA graph: {why}")


def _warn(text: str) -> None:
    warnings.warn(text, ReplayWarning, stacklevel=3)


def _told(what: Recording, gm: torch.fx.GraphModule, record: Record) -> str:
    """How it is replayed, and what memory that takes."""
    nodes = placeholders(gm.graph)
    copied = [n for n, x in enumerate(nodes) if n not in what.static and n not in what.integers]
    arena = record.summary.memory.arena if record.summary is not None and record.summary.memory is not None else "0"
    arena = f"{int(arena):,}" if arena.isdigit() else arena
    into = sum(_bytes(nodes[n]) for n in copied)
    made = sum(_bytes(x) for x in outputs_of(gm.graph) if isinstance(x, torch.fx.Node) and x.op != "placeholder")
    return (
        f"replayed: {len(what.static)} inputs stay in place, {len(copied)} are copied; its pool has an arena of {arena} bytes, "
        f"{into:,} bytes of copied inputs and {made:,} of outputs"
    )


def _bytes(node: torch.fx.Node) -> int:
    """The bytes of a node's tensors; of those of dynamic sizes, as they were seen first."""
    return sum(x.element_size() * _hint(x.numel()) for x in tensors(node.meta.get("val")))


def _hint(size: int | torch.SymInt) -> int:
    return int(size.node.hint or 0) if isinstance(size, torch.SymInt) else size


def _user_name(node: torch.fx.Node) -> str:
    """`cache` for `L['cache']`, as Dynamo says where an input comes from; the placeholder's name if it does not."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else name
    return text.replace("L['", "").replace("']", "") if isinstance(text, str) and text else node.name
