"""The compiled graphs of a trace, whole or in parts, as its entry in the disk cache tells of them, and made again from that.

Nothing here needs a compiler.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from bascule.frontend.fx.stack_traces import location, location_of
from bascule.frontend.graph_split.split_point import Cut
from bascule.runtime import load
from bascule.runtime.boxed import Boxed
from bascule.runtime.cudagraphs.recording import Direction
from bascule.runtime.memory.placed_constants import placed
from bascule.runtime.packages.graph_loader import GraphReader

from ..compiled.compiled_graph import NotSerializable
from ..compiled.serialized import SerializedSplit, Writer
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count
from ..reporting.device_warnings import warn_about
from ..reporting.graph_summary import count_summary
from .disk.entry_paths import GRAPHS
from .graph_entry import SerializedGraph, read
from .stores.backed_store import store_of

if TYPE_CHECKING:
    from ..cudagraphs.cudagraphify import Replays


class Lines:
    """The user's lines, and stack traces, by the number of the first node of Dynamo's graph that has each: entries hold numbers, and who loads
    one has lines of its own."""

    def __init__(self, nodes: Sequence[Node], *, traces: bool):
        """`traces`: whether stack traces are asked for."""
        self._numbers: dict[str, int] = {}
        for number, node in enumerate(nodes):
            for text in (location_of(node), node.meta.get("stack_trace") if traces else None):
                if text:
                    self._numbers.setdefault(text, number)

    def number(self, text: str) -> int | None:
        """Of a line, `model.py:12` or as the IR has it, `model.py:12:0`, or of a stack trace; where no node has it, of the line it ends in."""
        found = self._numbers.get(text)
        return self._numbers.get(location(text) or text.removesuffix(":0")) if found is None else found


class EntryWriter(Writer[SerializedGraph]):
    """Tells of the graphs of an entry."""

    def __init__(self, lines: Lines):
        super().__init__()
        self.lines = lines
        self.keys: list[str] = []  # of the graphs that it has told of

    def graph(self, serialized: SerializedGraph | SerializedSplit) -> dict[str, Any]:
        return {"nodes": serialized.nodes, "tangents": list(serialized.tangents)} | super().graph(serialized)

    def whole(self, serialized: SerializedGraph) -> dict[str, Any]:
        places = [self.lines.number(place) for place in serialized.places]
        if None in places:
            raise NotSerializable("a line of the source that no operator of the graph has")
        self.keys.append(serialized.key)
        told = {"key": serialized.key, "places": places, "target": serialized.target, "device": serialized.device}
        replay = serialized.replay and serialized.replay.told(self.lines.number)
        return told | {
            "subjects": list(serialized.subjects),
            "replay": replay,
            "constants": [*map(self.tensor, serialized.constants)],
        }

    def line(self, place: str) -> int | None:
        return self.lines.number(place)


class MissingGraph(Exception):
    """The cache does not have a graph of the entry, or no more."""


class TraceReader(GraphReader):
    """Makes the graphs of an entry, `direction` by direction. `nodes`: of Dynamo's graph here; `records`: of the graphs that were made."""

    def __init__(self, options: Options, nodes: Sequence[Node], blobs: Mapping[str, bytes], replays: "Replays | None"):
        super().__init__(blobs)
        self.options, self.nodes, self.replays = options, nodes, replays
        self.records: list[Record] = []
        self._direction: Direction = "inference"
        self._replayed = False  # whether something of this direction is

    def direction(self, told: Mapping[str, Any], name: str, direction: Direction) -> Boxed:
        """The compiled graph called `name`. Raises `MissingGraph`, and whatever what is wrong with `told` raises."""
        self._direction, self._replayed = direction, False
        call = self.graph(told, name)
        return call if self.replays is None else self.replays.followed(call, direction, replayed=self._replayed)

    def finished(self, on_record: Callable[[Record], None] | None) -> None:
        """Counts and reports what was made."""
        for record in self.records:
            record.finished()
            for cut in record.cuts:
                count("cuts", f"{cut.operator}: {cut.reason}")
            if record.compiled and record.summary is not None:
                count_summary(record.summary, record.wrapper)
            if on_record is not None:
                on_record(record)

    def whole(self, told: Mapping[str, Any], name: str) -> Boxed:
        target, device = told["target"], told["device"]
        record = Record(name, self.options, told["nodes"], target=target)
        with record.stage("cache"):
            places = [f"{location_of(self.nodes[number])}:0" for number in told["places"]]
            store = store_of(GRAPHS)
            entry = None if store is None else read(store, told["key"], places, target, device)
        if entry is None:
            raise MissingGraph(told["key"])
        where = torch.device("cuda" if target == "cuda" else "cpu", device)
        with record.stage("load"):
            constants = placed([*map(self.tensor, told["constants"])], where)
            call = load(entry.wrapper, entry.kernels, constants)
        warn_about(told["subjects"], where)
        record.wrapper, record.summary = entry.wrapper, entry.summary
        self.records.append(record)
        if self.replays is None or told["replay"] is None:
            return call
        from bascule.runtime.cudagraphs.replayed import Replayed

        from ..cudagraphs.serialized import SerializedReplay

        replay = SerializedReplay.of(told["replay"], name, self._direction, self.nodes, constants)
        call = self.replays.restored(call, replay, self._direction, record)
        self._replayed |= isinstance(call, Replayed)
        return call

    def split(self, told: Mapping[str, Any], name: str, source: str, constants: Sequence[Any]) -> Boxed:
        record = Record(name, self.options, told["nodes"], wrapper=source)
        record.cuts = [Cut(operator, reason, self.line(line)) for operator, reason, line in told["cuts"]]
        with record.stage("load"):
            call = super().split(told, name, source, constants)
        self.records.append(record)
        return call

    def line(self, told: int | None) -> str | None:
        return None if told is None else location_of(self.nodes[told])
