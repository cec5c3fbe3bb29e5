"""The driver: one functional graph through the stages, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bascule.frontend.fx.storage_places import outside
from bascule.frontend.fx.trace_context import compile_at_hand, hint
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
from ..dialect.last_words import speak
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.passes.stages import require_program
from ..dialect.steering.asking import steered_by
from ..errors import CompilerError, UnsupportedError, UserError
from ..manifest.manifest import dump_manifest, manifest_of
from ..options import Options
from ..pipelines import pipeline_for
from ..replay.edits import edits_of
from ..replay.failures import failure_of_edit
from ..replay.keep_inputs import keeping_inputs
from ..replay.replayed import run_from_edited
from ..reporting.compile_record import Record
from ..reporting.device_warnings import subjects_of, warn_about
from ..reporting.graph_summary import count_summary
from ..reporting.module_identity import identify
from ..reporting.module_summary import summary_of
from ..reporting.stage_manifest import WRAPPER_FILE, digest_of
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
    direction: str = "inference",
) -> CompiledGraph:
    """Compiles `gm`, a functional graph of ATen operators as AOTAutograd makes it.

    `example_inputs`: a fake tensor, a number or a symbolic integer for each placeholder. `name` stands in warnings,
    dumps and reproducers, `direction` in dumps. A graph with operators that have to run by themselves is compiled in parts, each with a
    record of its own. With `replay`, what is compiled is replayed as CUDA graphs. What is returned is called with
    the boxed calling convention. Raises what `options` asks for: see `run_otherwise`. Safe to call from several
    threads: each call has an MLIR context of its own.
    """

    def new_record(gm: torch.fx.GraphModule, name: str) -> Record:
        return Record(name, options, len(gm.graph.nodes), direction, compile_at_hand())

    def compile_subgraph(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        part = new_record(gm, f"{name}_{suffix}")
        try:
            return _through_stages(gm, inputs, options, part), part
        except CompilerError as error:
            return CompiledGraph(run_otherwise(gm, inputs, options, part, error)), part

    def compile_body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return compile_graph(gm, inputs, options, name=f"{name}_{suffix}", on_record=on_record, direction=direction)

    held = take_held_outputs(gm)
    record, parts = new_record(gm, name), list[Record]()
    if (
        lost := outside(gm.graph)
    ) is not None:  # eager's memory is as its operators leave it, whatever the options say of failures
        options = replace(options, on_error="aten")
    whole = partial(_through_stages, gm, example_inputs, options, record)
    try:
        if lost is not None:
            raise lost
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
    edited: str | None = None  # the file that takes the place of what a stage left

    def failed(self, error: Exception) -> CompilerError:
        return compiler_error(error, self.gm, self.record, self.options, self.snapshot, self.pipeline)


def _through_stages(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record
) -> CompiledGraph:
    speak()
    way = _Way(gm, example_inputs, options, record, pipeline_for(options))
    try:
        return _compiled(way)
    except UnsupportedError as error:
        if way.edited is not None:
            raise failure_of_edit(error, way.edited, record.running) from error
        if record.lowering:  # IR that our own passes have made is ours to lower: report it with a reproducer
            raise way.failed(error) from error
        raise
    except Exception as error:  # whatever a stage raises is a bug of ours: it is reported as one, with a reproducer
        pass_on(error)
        if way.edited is not None:
            raise failure_of_edit(error, way.edited, record.running) from error
        users = (options.pipeline, options.replay, options.hooks)
        if isinstance(error, UserError) and any(part is not None for part in users):
            raise  # the order of the passes is the user's, or a decision: what one of them does not take is too
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
    module = imported.module
    record.module, record.target, way.snapshot = module, target.name, Snapshot.of(module)
    with record.stage("cache"):
        slot = slot_for(gm, imported.module, way.pipeline, options, target)
        entry = None if slot is None else slot.load()
    if slot is not None and entry is not None:
        record.summary, record.wrapper = entry.summary, entry.wrapper
        with record.stage("load"):
            constants = placed(imported.constants, placement.device)
            serialized = slot.serialized(record.nodes, record.subjects, imported.constants)
            return CompiledGraph(load(entry.wrapper, entry.kernels, constants), serialized, constants)
    with steered_by(options.hooks):
        record.module = module = _passed(way, module)
    record.lowering = True
    if options.max_autotune and way.edited is None:
        from .autotune import tune

        tune(module, target, record)
    if options.dump is not None:
        record.manifest = manifest_of(module, record)
    kernels = target.compile(module, record)
    with record.stage("wrapper"):
        record.wrapper = record.edits.get(WRAPPER_FILE) or to_python(module, kernels.plans, checks_of(options))
        record.summary = summary_of(module)
    file = record.dump_wrapper(record.wrapper)
    if WRAPPER_FILE in record.edits:
        file = str(Path(way.edited or "").with_name(WRAPPER_FILE))  # tracebacks lead to what the user wrote
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
    return keeping_inputs(graph, module, imported.constants, record)


def _passed(way: _Way, module: ir.Module) -> ir.Module:
    """Result of the passes for an imported graph, or for the file of a dump that was edited."""
    record, options = way.record, way.options
    source = "" if options.dump is None and options.replay is None else digest_of(module.operation.get_asm())
    identify(module, record.name, record.direction, record.compile_id)
    if options.replay is None:
        record.dump_import(module, source)
        way.pipeline.run(module, verify=options.verify or None, observers=[record.observe], subject=record.name)
    else:
        edits = edits_of(options.replay, record.name, source)
        way.edited = edits.place
        module = run_from_edited(module, source, way.pipeline, edits, record)
    if options.pipeline is not None or way.edited is not None:  # the default one ends there
        require_program(module)
    return module


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
        if way.edited is not None:
            raise failure_of_edit(error, way.edited, way.record.running) from error
        reported = way.failed(error)
        reported.__cause__ = error
        return run_otherwise(way.gm, way.example_inputs, way.options, way.record, reported)


def checks_of(options: Options) -> Checks:
    """The checks that a graph's module makes in each call."""
    return Checks(values=options.nan_asserts, layouts=options.size_asserts)
