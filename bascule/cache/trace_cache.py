"""The disk cache of traces: a graph of Dynamo's whose like was compiled before is neither traced nor compiled again.

An entry is a package: what AOTAutograd came to, the keys of the compiled graphs (which `trace_entry.py` loads), their constants; or that the
trace was given up, and Dynamo began again with some numbers as constants. A key has several entries where the guards on symbols differ. What
happened is counted among `traces`: `hit`, `miss`, `stored`, `bypass: reason` and `refused: reason`. Nothing here needs a compiler.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import torch
from torch.fx import GraphModule, Node

from bascule.frontend.aot import autograd_cache
from bascule.frontend.aot.autograd_cache import Result
from bascule.frontend.aot.graph_key import NotKeyed, nodes_of
from bascule.frontend.aot.restarts import Restart, restart
from bascule.frontend.aot_runtime.tangents import with_memory
from bascule.runtime.cudagraphs.recording import Direction
from bascule.runtime.packages.container import PackageError, pack, unpack

from ..compiled.compiled_graph import NotKept
from ..cudagraphs.cudagraphify import Replays
from ..dialect.interrupts import pass_on
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count
from .artifacts import record
from .disk.directory import store_of
from .disk.entry_paths import TRACES
from .disk.files import Refused
from .graph_entry import bypassed
from .trace_entry import EntryWriter, Lines, MissingGraph, TraceReader
from .versions import versions

FORMAT = 5  # of entries, and of what a key covers
VARIANTS = 8  # entries of one key, with different guards
# Options that change nothing of what is traced or compiled, or that leave this cache unused.
UNSEEN = ("on_error", "dump", "verify", "cache", "cudagraph_shapes", "cudagraph_bytes")
RAN = "pre_grad_custom_pass"  # has run on the graph that is looked up
DIRECTIONS: dict[int, tuple[Direction, ...]] = {1: ("inference",), 2: ("forward", "backward")}


def unused(options: Options) -> str | None:
    """Why traces are not looked up at all; None if they are."""
    functions = [name for name, value in vars(options).items() if callable(value) and name != RAN]
    unknown = [name for name in functions if _uuid(getattr(options, name)) is None]
    if unknown:
        return f"the option '{unknown[0]}' is a function"
    if options.freezing:
        return "the option 'freezing' is on"  # weights are known at the first call
    if options.target == "interpret":
        return "the target 'interpret'"
    if options.profiler_mark_wrapper_call:
        return "the option 'profiler_mark_wrapper_call' is on"
    if torch._dynamo.config.repro_after is not None:
        return "a reproducer was asked for"
    return bypassed(options) or autograd_cache.unavailable()


@dataclass
class Traces:
    """Where the trace of one graph of Dynamo's is looked for and put: a `Lookup`. `table` gives the decompositions for tracing; `replays`: the
    CUDA graphs of what is loaded, if there are to be any."""

    name: str
    options: Options
    table: Callable[[], dict]
    on_record: Callable[[Record], None] | None
    replays: Replays | None = None
    key: str = field(default="", init=False)
    variant: int = field(default=0, init=False)  # where the entry belongs
    lines: Lines = field(init=False)  # those of the graph, once nothing was found for it

    def decompositions(self) -> dict:
        return self.table()

    def refuse(self, reason: str) -> None:
        count("traces", f"bypass: {reason}")

    def load(self, gm: GraphModule, args: Sequence[Any], aot_config: Any) -> Callable[..., Any] | None:
        """The function that an equal graph became; None if there is none that can be used. Raises `NotKeyed`."""
        self.key = self._key_of(gm, args, aot_config)
        nodes = list(nodes_of(gm))
        found = None
        try:
            found = self._find(nodes, args, aot_config)
            count("traces", "miss" if found is None else "hit")
        except Restart:
            count("traces", "hit")
            self.key = ""  # it is kept already
            raise
        except (Refused, PackageError) as reason:
            count("traces", f"refused: {reason}")
        except Exception as reason:  # whatever restoring meets, the graph can be traced
            pass_on(reason)
            count("traces", f"refused: {type(reason).__name__}: {reason}")
        if found is None:
            self.lines = Lines(nodes, traces=self.replays is not None)
        return found

    def _key_of(self, gm: GraphModule, args: Sequence[Any], aot_config: Any) -> str:
        options = {n: v for n, v in vars(self.options).items() if n not in UNSEEN and n != RAN}
        options |= {name: _uuid(value) for name, value in options.items() if callable(value)}
        if self.options.pipeline is not None:
            from ..pipelines import pipeline_for
            from .graph_key import check_passes

            check_passes(pipeline_for(self.options))
        conditions = json.dumps([FORMAT, options, versions(), _gpus(args)], sort_keys=True)
        return sha256(f"{conditions}\n{autograd_cache.key_text(gm, args, aot_config)}".encode()).hexdigest()

    @property
    def _file(self) -> str:
        return sha256(f"{self.key} {self.variant}".encode()).hexdigest()

    def _find(self, nodes: list[Node], args: Sequence[Any], aot_config: Any) -> Callable[..., Any] | None:
        store = store_of(TRACES)
        if store is None:  # the caches were turned off since
            return None
        for self.variant in range(VARIANTS):
            content = store.read(self._file)
            if content is None:
                return None
            description, blobs = unpack(content)
            if description["key"] != self._file:
                raise PackageError("the entry of another trace")
            if "restart" in description:
                record(store, self._file, content)
                restart(description["restart"])
            elif autograd_cache.holds(description["guards"], args):
                found = self._restore(description, blobs, nodes, args, aot_config)
                if found is not None:
                    record(store, self._file, content)
                return found
        self.variant = 0
        return None

    def _restore(
        self, description: Any, blobs: dict[str, bytes], nodes: list[Node], args: Sequence[Any], aot_config: Any
    ) -> Callable[..., Any] | None:
        graphs = description["graphs"]
        reader = TraceReader(self.options, nodes, blobs, self.replays and self.replays.anew())
        try:
            calls = [
                reader.direction(told, f"{self.name}_{direction}", direction)
                for told, direction in zip(graphs, DIRECTIONS[len(graphs)])
            ]
        except MissingGraph:
            return None
        if len(calls) > 1:
            calls[1] = with_memory(calls[1], graphs[1]["tangents"])
        with reader.records[0].stage("restore"):
            found = autograd_cache.restored(blobs["result"], calls, args, aot_config)
        reader.finished(self.on_record)
        return found

    def save(self, result: Result) -> None:
        writer = EntryWriter(self.lines)
        try:
            graphs = [writer.graph(kept) for kept in result.keys]
        except NotKept as reason:
            self.refuse(str(reason))
            return
        description = {"key": self._file, "guards": result.guards, "graphs": graphs}
        self._write(pack(description, {"result": result.content, **writer.blobs}))

    def restarted(self, names: Sequence[str]) -> None:
        if self.key and names:
            self._write(pack({"key": self._file, "restart": list(names)}, {}))

    def _write(self, content: bytes) -> None:
        store = store_of(TRACES)
        if store is None:
            return
        try:
            store.write(self._file, content)
        except Refused as reason:
            count("traces", f"refused: {reason}")
            return
        count("traces", "stored")
        record(store, self._file, content)


def _uuid(function: Any) -> str | None:
    """The `uuid` that tells a pass from others, if it has one, as Inductor's `CustomGraphPass` does."""
    uuid = getattr(function, "uuid", None)
    told = uuid() if callable(uuid) else None
    return None if told is None else repr(told)


def _gpus(args: Sequence[Any]) -> list[Any]:
    """The GPUs that the inputs are on, as kernels are compiled for them. Raises `NotKeyed` for a graph that may run on one that none is on."""
    devices = {x.device for x in args if isinstance(x, torch.Tensor)}
    if not devices and torch.cuda.is_available():
        raise NotKeyed("no input tells on which device it runs")
    found = []
    for device in sorted(devices, key=str):
        if device.type == "cuda":
            from bascule.runtime.kernels.cuda_driver import capability, device_name, sm_count

            number = device.index
            found.append([number, device_name(number), capability(number), sm_count(number)])
    return found
