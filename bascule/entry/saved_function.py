"""`torch.compile(f, backend="bascule", fullgraph=True).aot_compile(...)`: PyTorch writes down a function with guards, and this its one graph.

It is a package: the entry of its trace, as the cache of traces would have it, with those of its compiled graphs, their kernels among them; the
user's lines; and for whom it was made: another processor, GPU, PyTorch or Bascule is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch

from bascule.frontend.aot import autograd_cache
from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.aot.graph_key import NotKeyed, nodes_of
from bascule.frontend.aot.trace_lookup import Result
from bascule.frontend.aot_runtime.direct_calls import called_directly, making
from bascule.frontend.aot_runtime.python_random import drawn_places
from bascule.frontend.aot_runtime.tangents import with_memory
from bascule.frontend.fx.stack_traces import location_of
from bascule.runtime.kernels.elf_loader import ObjectCodeError
from bascule.runtime.kernels.processor import instruction_sets
from bascule.runtime.packages.container import PackageError, pack, unpack
from bascule.runtime.packages.graph_loader import check_machine

from ..aliasing.untracked_writes import run_as_eager
from ..cache.disk.entry_paths import GRAPHS, KINDS
from ..cache.stores.backed_store import collecting
from ..cache.stores.process_memory import MemoryStore
from ..cache.trace_cache import DIRECTIONS, unused
from ..cache.trace_entry import EntryWriter, Lines, TraceReader
from ..cache.versions import versions
from ..compat.graphs.aot_autograd import config
from ..compat.graphs.aot_functions import SerializableCallable
from ..compat.graphs.dynamo import disable
from ..compiled.compiled_graph import NotSerializable
from ..compiled.output_code import CompiledFxGraph
from ..compiler.custom_passes import partitioner
from ..compiler.fx_passes import fx_pipeline, told_of_passes
from ..errors import ReplayWarning, UserError
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.warnings_later import warn

FORMAT = 1
TRACE = "trace"


class SavedFunction(SerializableCallable):
    """A compiled graph that can be written down as `content`, and is the same when it is read."""

    def __init__(self, call: Callable[..., Any], content: bytes):
        self.call, self.content = call, content

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: "SavedFunction") -> bytes:
        return fn.content

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> "SavedFunction":
        """Raises `UserError` for what was made for another machine, or by another version. `data` is unpickled: PyTorch has unpickled the file
        that it is from."""
        return cls(_loaded(data), data)


@dataclass
class _Taken:
    """A `Lookup` that finds nothing, and takes what the trace came to."""

    table: Callable[[], dict]
    result: Result | None = None
    reason: str = "AOTAutograd did not give its result"
    nodes: list[torch.fx.Node] = field(default_factory=list)

    def load(self, gm: torch.fx.GraphModule, args: Sequence[Any], aot_config: Any) -> None:
        self.nodes = list(nodes_of(gm))

    def decompositions(self) -> dict:
        return self.table()

    def save(self, result: Result) -> None:
        self.result = result

    def restarted(self, names: Sequence[str]) -> None:
        """Dynamo has begun again."""

    def refuse(self, reason: str) -> None:
        self.reason = reason


def compile_to_save(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    on_record: Callable[[Record], None] | None,
    name: str,
    decompositions: Callable[[], dict],
) -> SavedFunction:
    """Compiles a graph of Dynamo's as the backend does, forward and backward at once. Raises `UserError` where it cannot be written down."""
    settings = config.patch(bundled_autograd_cache=False, strict_autograd_cache=False, enable_autograd_cache=True)
    with settings, collecting(GRAPHS, *(() if options.cache else KINDS)) as store:
        if options.cudagraphs and any(isinstance(x, torch.Tensor) and x.is_cuda for x in example_inputs):
            warn(f"{name} is not replayed as a CUDA graph: it is compiled to be saved", ReplayWarning)
        options = replace(options, cache=True, tiers=False, cudagraphs=False)
        reason = unused(options)
        if reason is not None:
            raise _refused(reason)
        if run_as_eager(gm, example_inputs, options, name, on_record):
            raise _refused("it runs as eager runs it")
        if drawn_places(gm):
            raise _refused("it draws numbers of Python's random")
        passes, taken, graphs = fx_pipeline(name, options, captured=True), _Taken(decompositions), list[Any]()
        on_record = told_of_passes(on_record, passes, name)

        def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **direction: Any) -> CompiledFxGraph:
            from ..compiler.autograd_graph import compile_autograd_graph

            graph = compile_autograd_graph(name, options, on_record, gm, example_inputs, passes=passes, **direction)
            graphs.append(graph)
            try:
                return CompiledFxGraph(graph, graph.entry())
            except NotSerializable as reason:
                taken.refuse(str(reason))
                return CompiledFxGraph(graph)

        how = {"passes": passes, "leaning": options.internals, "backward_at_once": True}
        call = compile_with_autograd(gm, example_inputs, compiler, {}, partitioner(options, passes), taken, **how)
        for graph in graphs:
            graph.finished()  # and kept
        return SavedFunction(call, _content(taken, store))


def _refused(reason: str) -> UserError:
    return UserError(
        f"torch.compile(...).aot_compile() does not take this function: {reason}",
        hint="bascule.aot_compile(torch.export.export(module, args), path) writes a program down, bascule.aot_load(path) loads it; "
        "functions that are compiled again in another process are loaded from the disk cache",
    )


def _content(taken: _Taken, store: MemoryStore) -> bytes:
    if taken.result is None:
        raise _refused(taken.reason)
    writer = EntryWriter(Lines(taken.nodes, traces=False))
    try:
        graphs = [writer.graph(serialized) for serialized in taken.result.keys]
        made_by = _versions()
    except (NotSerializable, NotKeyed) as reason:
        raise _refused(str(reason)) from reason
    blobs = {TRACE: taken.result.content, **writer.blobs}
    for key in writer.keys:
        content = store.read(key)
        if content is None:
            raise _refused("a kernel of it is not compiled")
        blobs[f"graphs/{key}"] = content
    devices = {f"cuda:{told['device']}" for told in _whole(graphs) if told["target"] == "cuda"}
    description = {
        "format": FORMAT,
        "versions": made_by,
        "processor": sorted(instruction_sets()),
        "gpus": {device: _capability(device) for device in sorted(devices)},
        "graphs": graphs,
        "lines": [location_of(node) or "" for node in taken.nodes],
    }
    return pack(description, blobs)


def _versions() -> dict[str, str]:
    return {name: versions()[name] for name in ("torch", "python", "bascule")}


def _whole(graphs: Sequence[Any]) -> list[Any]:
    """Those that were compiled whole, of graphs and of parts of them."""
    inside = [x["graph"] for told in graphs if "chain" in told for x in told["constants"] if "graph" in x]
    return [told for told in graphs if "chain" not in told] + (_whole(inside) if inside else [])


def _capability(device: str) -> int:
    from bascule.runtime.kernels.cuda_driver import capability

    return capability(torch.device(device).index)


def _loaded(content: bytes) -> Callable[..., Any]:
    try:
        description, blobs = unpack(content)
        if description.get("format") != FORMAT or description["versions"] != _versions():
            raise PackageError("written by another version of Bascule, PyTorch or Python")
        check_machine(description["processor"], description["gpus"])
    except (PackageError, ObjectCodeError, NotKeyed) as reason:
        raise UserError(
            f"a compiled function cannot be loaded: {reason}", hint="compile and save it again, here"
        ) from reason
    nodes = [SimpleNamespace(meta={"stack_trace": _frame(line)}) for line in description["lines"]]
    graphs = description["graphs"]
    with collecting(GRAPHS) as store:
        for name, blob in blobs.items():
            if name.startswith("graphs/"):
                store.write(name.removeprefix("graphs/"), blob)
        reader = TraceReader(Options(), nodes, blobs, None)  # type: ignore[arg-type]
        calls = [reader.direction(told, f"saved_{way}", way) for told, way in zip(graphs, DIRECTIONS[len(graphs)])]
    if len(calls) > 1:
        calls[1] = with_memory(calls[1], graphs[1]["tangents"])
    with making() as found:
        compiled = autograd_cache.restored_alone(blobs[TRACE], calls)
    reader.finished(None)

    def call(*args: Any) -> Any:
        return compiled(list(args))

    direct = called_directly(call, found, None, Options().internals.direct_calls)
    return disable(direct, reason="a compiled graph")


def _frame(line: str) -> str:
    """A stack trace that ends in a line, `model.py:12`."""
    file, _, number = line.rpartition(":")
    return f'File "{file}", line {number}' if file else ""
