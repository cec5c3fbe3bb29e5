"""The disk cache of traces: a graph of Dynamo's whose like was compiled before is neither traced nor compiled again.

An entry is a package: what AOTAutograd came to, the keys of the compiled graphs (which `trace_entry.py` loads), their constants; or that the
trace was given up, and Dynamo began again with some numbers as constants. A key has several entries where the guards on symbols differ. What
happened is counted among `traces`: `hit`, `miss`, `stored`, `bypass: reason` and `refused: reason`. Nothing here needs a compiler.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from bascule.frontend.aot import autograd_cache
from bascule.frontend.aot.declared_decompositions import key_text
from bascule.frontend.aot.graph_key import NotKeyed, nodes_of
from bascule.frontend.aot.restarts import Restart, restart
from bascule.frontend.aot.trace_lookup import Result
from bascule.frontend.aot_runtime.tangents import with_memory
from bascule.frontend.conversion.registry import users_rules
from bascule.runtime.cudagraphs.recording import Direction
from bascule.runtime.packages.container import pack

from ..compat.graphs.dynamo import config as dynamo_config
from ..compiled.compiled_graph import NotSerializable
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count
from .disk.entry_paths import GRAPHS, TRACES
from .entries import opened, refusing, write
from .graph_entry import bypassed
from .keys import digest, seen
from .stores.backed_store import BackedStore, store_of
from .stores.recorded import record
from .trace_bundle import share, shared
from .trace_entry import EntryWriter, Lines, MissingGraph, TraceReader
from .versions import versions

if TYPE_CHECKING:
    from ..cudagraphs.cudagraphify import Replays

FORMAT = 8  # of entries, and of what a key covers
VARIANTS = 8  # entries of one key, with different guards
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
    if options.print_fx_passes:
        return "the option 'print_fx_passes' is on"  # passes run on what is traced
    if (operator := key_text()[0]) is not None:
        return f"the decomposition of '{operator}' has no version"
    if (operator := users_rules()[0]) is not None:
        return f"the rule of '{operator}' has no version"
    if dynamo_config.repro_after is not None:
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
    replays: "Replays | None" = None
    key: str = field(default="", init=False)
    variant: int = field(default=0, init=False)  # where the entry belongs on this machine
    shared_variant: int = field(default=0, init=False)  # and in the remote cache, where others have put theirs
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
            with refusing("traces", Restart):
                found = self._find(nodes, args, aot_config)
                count("traces", "miss" if found is None else "hit")
        except Restart:
            count("traces", "hit")
            self.key = ""  # it is kept already
            raise
        if found is None:
            self.lines = Lines(nodes, traces=self.replays is not None)
        return found

    def _key_of(self, gm: GraphModule, args: Sequence[Any], aot_config: Any) -> str:
        options = seen(self.options, (RAN,))
        options |= {name: _uuid(value) for name, value in options.items() if callable(value)}
        code = []
        if self.options.pipeline is not None or self.options.hooks is not None:
            from ..pipelines import pipeline_for
            from .graph_key import users_code

            code = users_code(pipeline_for(self.options), self.options)
        return digest(
            [FORMAT, options, code, key_text()[1], users_rules()[1], versions(), _gpus(args)],
            autograd_cache.key_text(gm, args, aot_config),
        )

    def _file(self, variant: int) -> str:
        return sha256(f"{self.key} {variant}".encode()).hexdigest()

    def _find(self, nodes: list[Node], args: Sequence[Any], aot_config: Any) -> Callable[..., Any] | None:
        store = store_of(TRACES)
        if store is None:  # the caches were turned off since
            return None
        for self.variant in range(VARIANTS):
            file = self._file(self.variant)
            content = store.here(file)
            if content is None:
                break
            entry = opened(file, content)
            if self._holds(entry, args):
                used = partial(record, store.local, file, content)
                found = self._restore(*entry, used, nodes, args, aot_config)
                if found is not None:
                    return found
                break  # a graph of it is not there: its place is taken
        else:
            self.variant = 0
        return self._find_shared(store, nodes, args, aot_config)

    def _find_shared(
        self, store: BackedStore, nodes: list[Node], args: Sequence[Any], aot_config: Any
    ) -> Callable[..., Any] | None:
        """Looks into the remote cache; keeps here what it has, the trace where there is room for one, and its graphs."""
        files, graphs = [self._file(variant) for variant in range(VARIANTS)], store_of(GRAPHS)
        taken = set()
        for file, content, with_it in shared(store, files):
            description, blobs = entry = opened(file, content)
            if graphs is None or not self._holds(entry, args):
                taken.add(file)
                continue
            for key, graph in with_it.items():
                graphs.keep(key, graph)
            here = self._file(self.variant)
            kept = pack({**description, "key": here}, blobs)
            store.keep(here, kept)
            used = partial(record, store.local, here, kept)
            found = self._restore(description, blobs, used, nodes, args, aot_config)
            if found is not None:
                return found
        self.shared_variant = next((variant for variant, file in enumerate(files) if file not in taken), 0)
        return None

    def _holds(self, entry: tuple[Any, Any], args: Sequence[Any]) -> bool:
        """Whether the numbers at hand satisfy the guards of an entry; always for a trace that was given up."""
        return "restart" in entry[0] or autograd_cache.holds(entry[0]["guards"], args)

    def _restore(
        self,
        description: Any,
        blobs: dict[str, bytes],
        used: Callable[[], None],
        nodes: list[Node],
        args: Sequence[Any],
        aot_config: Any,
    ) -> Callable[..., Any] | None:
        """The function that the entry tells of, or None; `used` is called if that is it. Raises `Restart` for a trace that was given up."""
        if "restart" in description:
            used()
            restart(description["restart"])
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
        used()
        return found

    def save(self, result: Result) -> None:
        writer = EntryWriter(self.lines)
        try:
            graphs = [writer.graph(serialized) for serialized in result.keys]
        except NotSerializable as reason:
            self.refuse(str(reason))
            return
        self._write(
            {"guards": result.guards, "graphs": graphs}, {"result": result.content, **writer.blobs}, writer.keys
        )

    def restarted(self, names: Sequence[str]) -> None:
        if self.key and names:
            self._write({"restart": list(names)}, {}, ())

    def _write(self, description: Mapping[str, Any], blobs: Mapping[str, bytes], keys: Sequence[str]) -> None:
        """Keeps an entry, whose graphs have these `keys`."""
        store, graphs = store_of(TRACES), store_of(GRAPHS)
        if store is None or graphs is None:
            return
        file = self._file(self.variant)
        write(BackedStore(store.local), file, pack({"key": file, **description}, blobs))
        file = self._file(self.shared_variant)
        share(store, graphs, file, pack({"key": file, **description}, blobs), keys)


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
            from bascule.runtime.kernels.cuda_driver import capability, device_name, l2_bytes, sm_count

            number = device.index
            what = [capability(number), sm_count(number), l2_bytes(number)]
            found.append([number, device_name(number), *what])
    return found
