"""The driver: one functional graph through the stages, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bascule.frontend.fx.trace_context import hint
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import Checks, to_python
from bascule.runtime import load
from bascule.runtime.boxed import Boxed
from bascule.runtime.memory.placed_constants import placed

from ..aliasing.storage_offset_guard import at_places, places_of
from ..cache.graph_cache import Slot, slot_for
from ..compiled.compiled_graph import CompiledGraph
from ..compiled.deferred import FinishedAtFirstCall
from ..cudagraphs.cudagraphify import Replay
from ..debugging.reproducer_ir import Snapshot, compiler_error
from ..dialect.interrupts import pass_on
from ..dialect.ir import context
from ..dialect.passes import Pipeline
from ..dialect.passes.stages import require_program
from ..errors import CompilerError, UnsupportedError, UserError
from ..manifest.manifest import dump_manifest, manifest_of
from ..options import Options
from ..pipelines import pipeline_for
from ..reporting.compile_record import Record
from ..reporting.device_warnings import subjects_of, warn_about
from ..reporting.graph_summary import count_summary
from ..reporting.module_summary import summary_of
from ..targets.base import Compiled
from ..targets.placement import placement_of
from ..targets.select import target_for
from .fallback import run_otherwise
from .held_outputs import take_held_outputs, with_held_outputs
from .whole_or_split import whole_or_split


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    *,
    name: str = "graph",
    on_record: Callable[[Record], None] | None = None,
    replay: Replay | None = None,
) -> CompiledGraph:
    """Compiles `gm`, a functional graph of ATen operators as AOTAutograd makes it.

    `example_inputs`: a fake tensor, a number or a symbolic integer for each placeholder. `name` stands in warnings,
    dumps and reproducers. A graph with operators that have to run by themselves is compiled in parts, each with a
    record of its own. With `replay`, what is compiled is replayed as CUDA graphs. What is returned is called with
    the boxed calling convention. Raises what `options` asks for: see `run_otherwise`. Safe to call from several
    threads: each call has an MLIR context of its own.
    """

    def new_record(gm: torch.fx.GraphModule, name: str) -> Record:
        return Record(name, options, nodes=len(gm.graph.nodes))

    def compile_subgraph(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        part = new_record(gm, f"{name}_{suffix}")
        try:
            return _through_stages(gm, inputs, options, part), part
        except CompilerError as error:
            return CompiledGraph(run_otherwise(gm, inputs, options, part, error)), part

    def compile_body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return compile_graph(gm, inputs, options, name=f"{name}_{suffix}", on_record=on_record)

    held = take_held_outputs(gm)
    record, parts = new_record(gm, name), list[Record]()
    whole = partial(_through_stages, gm, example_inputs, options, record)
    try:
        compiled, parts = whole_or_split(gm, options, record, whole, compile_subgraph, compile_body, replay)
    except (UnsupportedError, CompilerError) as error:
        compiled = CompiledGraph(run_otherwise(gm, example_inputs, options, record, error))
    if replay is not None and not record.cuts:
        compiled = replay.of(compiled, gm, record)
    for finished in (record, *parts):
        finished.finished()
        if finished.compiled and finished.summary is not None:
            count_summary(finished.summary)
        if on_record is not None:
            on_record(finished)
    places = places_of(gm.graph)
    if places:
        compiled = CompiledGraph(at_places(compiled.call, gm, places, name))
    return CompiledGraph(with_held_outputs(compiled.call, held)) if held else compiled


def _aligned(example_inputs: Sequence[Any]) -> bool:
    """Whether the dynamic sizes are multiples of 16 as they are now."""
    sizes = [size for x in example_inputs for size in (x.shape if isinstance(x, torch.Tensor) else [x])]
    seen = [hint(size) for size in sizes if isinstance(size, torch.SymInt)]
    # A ragged size is no number.
    return all(size is None or (isinstance(size, int) and size % 16 == 0) for size in seen)


@dataclass
class _Way:
    """A graph on its way through the stages, with what a reproducer of a failure needs."""

    gm: torch.fx.GraphModule
    example_inputs: Sequence[Any]
    options: Options
    record: Record
    pipeline: Pipeline
    snapshot: Snapshot | None = None

    def failed(self, error: Exception) -> CompilerError:
        return compiler_error(error, self.gm, self.record, self.options, self.snapshot, self.pipeline)


def _through_stages(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record
) -> CompiledGraph:
    way = _Way(gm, example_inputs, options, record, pipeline_for(options))
    try:
        return _compiled(way)
    except UnsupportedError as error:
        if record.lowering:  # IR that our own passes have made is ours to lower: report it with a reproducer
            raise way.failed(error) from error
        raise
    except Exception as error:  # whatever a stage raises is a bug of ours: it is reported as one, with a reproducer
        pass_on(error)
        if isinstance(error, UserError) and options.pipeline is not None:
            raise  # the order of the passes is the user's: IR that one of them does not take is too
        raise way.failed(error) from error


def _compiled(way: _Way) -> CompiledGraph:
    gm, options, record = way.gm, way.options, way.record
    with record.stage("import"):
        placement = placement_of(gm)
        record.subjects = subjects_of(gm, placement.device)
        warn_about(record.subjects, placement.device)
        target = target_for(options.target, placement)
        way.pipeline = pipeline_for(options, target.machine)
        imported = import_graph(gm, way.example_inputs, context=context())
        placement.annotate(imported.module)
    record.aligned = _aligned(way.example_inputs)
    record.module, record.target, way.snapshot = imported.module, target.name, Snapshot.of(imported.module)
    record.dump_module("import", imported.module)
    with record.stage("cache"):
        slot = slot_for(gm, imported.module, way.pipeline, options, target)
        entry = None if slot is None else slot.load()
    if slot is not None and entry is not None:
        record.summary, record.wrapper = entry.summary, entry.wrapper
        with record.stage("load"):
            constants = placed(imported.constants, placement.device)
            serialized = slot.serialized(record.nodes, record.subjects, imported.constants)
            return CompiledGraph(load(entry.wrapper, entry.kernels, constants), serialized, constants)
    way.pipeline.run(imported.module, verify=options.verify, observers=[record.observe])
    if options.pipeline is not None:  # the default one ends there
        require_program(imported.module)
    record.lowering = True
    if options.max_autotune:
        from .autotune import tune

        tune(imported.module, target, record)
    if options.dump is not None:
        record.manifest = manifest_of(imported.module, record)
    kernels = target.compile(imported.module, record)
    with record.stage("wrapper"):
        record.wrapper = to_python(imported.module, kernels.plans, checks_of(options))
        record.summary = summary_of(imported.module)
    file = record.dump("wrapper.py", record.wrapper)
    constants = placed(imported.constants, placement.device)

    def finish() -> tuple[Boxed, bool]:
        return _finished(kernels, slot, record, constants, file)

    if kernels.pending is None:
        call, stored = finish()
        graph = CompiledGraph(call, constants=constants)
    else:
        later, stored = FinishedAtFirstCall(partial(_finished_or_otherwise, way, finish)), True  # once it is finished
        graph = CompiledGraph(later, constants=constants, finish=later.finished)
    if slot is not None and stored:
        graph.serialized = slot.serialized(record.nodes, record.subjects, imported.constants)
    return graph


def _finished(
    kernels: Compiled,
    slot: Slot | None,
    record: Record,
    constants: tuple[torch.Tensor, ...],
    file: str | None,
) -> tuple[Boxed, bool]:
    """The function that runs the graph, once its kernels are compiled, and whether it is kept in `slot`."""
    assert record.wrapper is not None and record.summary is not None
    finished, stored = kernels.finished(), False
    if slot is not None and not record.refused:
        with record.stage("cache"):
            stored = slot.store(record.wrapper, finished, record.summary)
    with record.stage("load"):
        loaded = load(record.wrapper, finished.kernels, constants, file=file)
    dump_manifest(record, finished.kernels)
    return loaded, stored


def _finished_or_otherwise(way: _Way, finish: Callable[[], tuple[Boxed, bool]]) -> Boxed:
    """`finish()`; a failure is told where the graph is first called, and does with it what the options ask for."""
    try:
        return finish()[0]
    except Exception as error:
        pass_on(error)
        reported = way.failed(error)
        reported.__cause__ = error
        return run_otherwise(way.gm, way.example_inputs, way.options, way.record, reported)


def checks_of(options: Options) -> Checks:
    """The checks that a graph's module makes in each call."""
    return Checks(values=options.nan_asserts, layouts=options.size_asserts)
