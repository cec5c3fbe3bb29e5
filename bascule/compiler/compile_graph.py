"""The driver: one functional graph through the stages, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from bascule.frontend.fx.graph_ends import AS_WITHOUT
from bascule.frontend.fx.storage_places import outside, unfollowed
from bascule.frontend.fx.trace_context import compile_at_hand, hint
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import Checks, to_python
from bascule.runtime import load
from bascule.runtime.boxed import Boxed
from bascule.runtime.memory.placed_constants import placed

from ..aliasing.storage_offset_guard import at_places, places_of
from ..cache.graph_cache import Slot, slot_for
from ..compiled.compiled_graph import UNKNOWN, CompiledGraph
from ..compiled.deferred import FinishedAtFirstCall, once_finished, unless_refused
from ..debugging.reproducer_ir import Snapshot, compiler_error
from ..dialect.interrupts import pass_on
from ..dialect.ir import context
from ..dialect.last_words import speak
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.passes.pipeline import Observer
from ..dialect.passes.stages import require_program
from ..dialect.steering.asking import steered_by
from ..errors import CompilerError, UnsupportedError, UserError
from ..options import Options, without_budget
from ..pipelines import pipeline_for
from ..reporting.compile_record import Record
from ..reporting.device_warnings import subjects_of, warn_about
from ..reporting.graph_summary import count_summary
from ..reporting.module_identity import identify
from ..reporting.module_summary import summary_of
from ..reporting.progress import shown
from ..reporting.stage_manifest import WRAPPER_FILE, digest_of
from ..targets.base import Compiled, Target
from ..targets.placement import placement_of
from ..targets.select import target_for
from ..tiers.background import checkpoint
from .fallback import run_otherwise
from .held_outputs import take_held_outputs, with_held_outputs
from .whole_or_split import whole_or_split

if TYPE_CHECKING:  # what few compiles need is imported where it is called: modules take a first step's time
    from ..cudagraphs.cudagraphify import Replay


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    *,
    name: str = "graph",
    on_record: Callable[[Record], None] | None = None,
    replay: "Replay | None" = None,
    direction: str = "inference",
) -> CompiledGraph:
    """Compiles `gm`, a functional graph of ATen operators as AOTAutograd makes it.

    `example_inputs`: a fake tensor, a number or a symbolic integer for each placeholder. `name` stands in warnings,
    dumps and reproducers, `direction` in dumps. A graph with operators that have to run by themselves is split into subgraphs, each with a
    record of its own. With `replay`, what is compiled is replayed as CUDA graphs. What is returned is called with
    the boxed calling convention. Raises what `options` asks for: see `run_otherwise`. Safe to call from several
    threads: each call has an MLIR context of its own.
    """

    held = take_held_outputs(gm)
    record, subgraphs = Record(name, options, len(gm.graph.nodes), direction, compile_at_hand()), list[Record]()

    def made(options: Options) -> CompiledGraph:
        with shown(record):
            compiled, subgraphs[:] = _whole_or_split(gm, example_inputs, options, record, on_record, replay)
        return compiled

    compiled = unless_refused(made(options), lambda _: made(replace(options, tiers=False)).finished())

    def recorded(compiled: CompiledGraph) -> CompiledGraph:
        if replay is not None and not record.cuts:
            compiled = replay.of(compiled, gm, record)
        _report((record, *subgraphs), on_record)
        return compiled

    compiled = once_finished(compiled, recorded)
    places = places_of(gm.graph)
    if places:
        compiled = replace(compiled.within(lambda call: at_places(call, gm, places, name)), serialized=UNKNOWN)
    if held:
        compiled = replace(compiled.within(lambda call: with_held_outputs(call, held)), serialized=UNKNOWN)
    return compiled


def _whole_or_split(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    record: Record,
    on_record: Callable[[Record], None] | None,
    replay: "Replay | None",
) -> tuple[CompiledGraph, list[Record]]:
    """`gm` compiled, or what runs it otherwise; and the records of its subgraphs, if it was split. See `compile_graph`."""
    name, direction = record.name, record.direction

    def compile_subgraph(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        own = Record(f"{name}_{suffix}", options, len(gm.graph.nodes), direction, record.compile_id)
        try:
            return _through_stages(gm, inputs, options, own), own
        except CompilerError as error:
            return CompiledGraph(run_otherwise(gm, inputs, options, own, error)), own

    def compile_body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return compile_graph(gm, inputs, options, name=f"{name}_{suffix}", on_record=on_record, direction=direction)

    if (unclear := unfollowed(gm.graph)) is not None:
        raise unclear
    lost = outside(gm.graph)
    if lost is not None:  # eager's memory is as its operators leave it, whatever the options say of failures
        options = replace(options, on_error="aten")
    whole = partial(_through_stages, gm, example_inputs, options, record)
    try:
        if lost is not None:
            raise lost
        return whole_or_split(gm, options, record, whole, compile_subgraph, compile_body, replay)
    except (UnsupportedError, CompilerError) as error:
        return CompiledGraph(run_otherwise(gm, example_inputs, options, record, error)), []


def _report(records: Sequence[Record], on_record: Callable[[Record], None] | None) -> None:
    for finished in records:
        finished.finished()
        if finished.compiled and finished.summary is not None:
            count_summary(finished.summary, finished.wrapper)
        if on_record is not None:
            on_record(finished)


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
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(()))  # that of the target, once it is known
    snapshot: Snapshot | None = None
    edited: str | None = None  # the file that takes the place of what a stage left
    keep: Callable[[Boxed], Boxed] | None = None  # has the first call of a function write its inputs

    def kept(self, call: Boxed) -> Boxed:
        """`call`, which writes its inputs as the options ask."""
        return call if self.keep is None else self.keep(call)

    def failed(self, error: Exception) -> CompilerError:
        return compiler_error(error, self.gm, self.record, self.options, self.snapshot, self.pipeline)


def _through_stages(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record
) -> CompiledGraph:
    speak()
    way = _Way(gm, example_inputs, options, record)
    try:
        with shown(record):
            return _compiled(way)
    except Exception as error:
        pass_on(error)
        _raise_as_told(way, error)


def _raise_as_told(way: _Way, error: Exception) -> NoReturn:
    """Raises `error` of a stage if its user can do something about it, or a graph that is split; else it is a bug of ours, with a reproducer."""
    if way.edited is not None:
        from ..replay.failures import failure_of_edit

        raise failure_of_edit(error, way.edited, way.record.running) from error
    if (
        isinstance(error, UnsupportedError) and not way.record.lowering
    ):  # IR that our own passes have made is ours to lower
        raise error
    users = (way.options.pipeline, way.options.replay, way.options.hooks)
    if isinstance(error, UserError) and not isinstance(error, UnsupportedError) and any(x is not None for x in users):
        raise error  # the order of the passes is the user's, or a decision: what one of them does not take is too
    raise way.failed(error) from error


def _compiled(way: _Way) -> CompiledGraph:
    gm, options, record = way.gm, way.options, way.record
    with record.stage("import"):
        placement = placement_of(gm)
        record.subjects = subjects_of(gm, placement.device)
        warn_about(record.subjects, placement.device)
        target = target_for(options.target, placement)
        planned = without_budget(options) if AS_WITHOUT in gm.graph.output_node().meta else options
        way.pipeline = pipeline_for(planned, target.machine, trained=record.direction != "inference")
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
            graph = CompiledGraph(load(entry.wrapper, entry.kernels, constants), serialized, constants)
            return _with_operators(graph, way, placement.device)
    target.prepare()
    constants = placed(imported.constants, placement.device)
    lower = partial(_lowered, way, target, slot, constants, imported.constants)
    finish, pending = (lambda: lower()[0](), True) if options.tiers else lower()
    if pending:
        later, stored = FinishedAtFirstCall(partial(_finished_or_otherwise, way, finish)), True  # once it is finished
        graph = CompiledGraph(later, constants=constants, finish=later.finished)
    else:
        call, stored = finish()
        graph = CompiledGraph(call, constants=constants)
    if slot is not None and stored:
        graph.serialized = slot.serialized(record.nodes, record.subjects, imported.constants)
    return _with_operators(graph, way, placement.device)


def _lowered(
    way: _Way,
    target: Target,
    slot: Slot | None,
    constants: tuple[torch.Tensor, ...],
    held: tuple[torch.Tensor, ...],
) -> tuple[Callable[[], tuple[Boxed, bool]], bool]:
    """Takes the imported module through the passes to code. Returns what waits for the code, see `_finished`, and whether there is anything to
    wait for. `constants`: the tensors `held` by the graph, where they lie."""
    options, record = way.options, way.record
    with steered_by(options.hooks):
        record.module = module = _passed(way, target)
    record.lowering = True
    if options.max_autotune and way.edited is None:
        from ..autotuning.kernels import tune

        tune(module, target, record)
    if options.dump is not None:
        from ..manifest.manifest import manifest_of
        from ..replay.keep_inputs import keeping_inputs

        way.keep = partial(keeping_inputs, module=module, constants=held, record=record)
        record.manifest = manifest_of(module, record)
    kernels = target.compile(module, record)
    checkpoint()
    with record.stage("wrapper"):
        # With a memory budget what dies is to be free.
        how = {"checks": checks_of(options), "keeps_results": options.memory_budget is None}
        record.wrapper = record.edits.get(WRAPPER_FILE) or to_python(module, kernels.plans, **how)
        record.summary = summary_of(module)
    file = record.dump_wrapper(record.wrapper)
    if WRAPPER_FILE in record.edits:
        file = str(Path(way.edited or "").with_name(WRAPPER_FILE))  # tracebacks lead to what the user wrote
    return partial(_finished, way, kernels, slot, constants, file), kernels.pending is not None


def _passed(way: _Way, target: Target) -> ir.Module:
    """Result of the passes for an imported graph, or for the file of a dump that was edited."""
    record, options, module = way.record, way.options, way.record.module
    assert module is not None
    source = "" if options.dump is None and options.replay is None else digest_of(module.operation.get_asm())
    planned = None
    if options.memory_budget is not None and not record.is_watched:
        from .planned_programs import taken

        planned = taken(module, way.pipeline)
    if planned is not None:
        module, record.seconds = planned.module, record.seconds | planned.seconds
    identify(module, record.name, record.direction, record.compile_id)
    if planned is not None:
        pass  # its passes ran while the budget was kept
    elif options.replay is None:
        record.dump_import(module, source)
        observers = [*_tuners(target, record), record.observe, lambda *_: checkpoint()]
        way.pipeline.run(module, verify=options.verify or None, observers=observers, subject=record.name)
    else:
        from ..replay.edits import edits_of
        from ..replay.replayed import run_from_edited

        edits = edits_of(options.replay, record.name, source)
        way.edited = edits.place
        module = run_from_edited(module, source, way.pipeline, edits, record)
    if options.pipeline is not None or way.edited is not None:  # the default one ends there
        require_program(module)
    return module


def _tuners(target: Target, record: Record) -> list[Observer]:
    """The observers that choose products by measuring, if that is asked for."""
    if not record.options.max_autotune:
        return []
    from ..autotuning.products import product_tuner

    return product_tuner(target, record)


def _with_operators(graph: CompiledGraph, way: _Way, device: torch.device) -> CompiledGraph:
    """`graph`, and what runs it until it is finished, if that is asked for."""
    if not way.options.tiers:
        return graph
    from ..tiers.operators import as_operators

    return replace(graph, meanwhile=as_operators(way.gm, way.options, device))


def _finished(
    way: _Way,
    kernels: Compiled,
    slot: Slot | None,
    constants: tuple[torch.Tensor, ...],
    file: str | None,
) -> tuple[Boxed, bool]:
    """The function that runs the graph, once its kernels are compiled, and whether it is kept in `slot`."""
    record = way.record
    assert record.wrapper is not None and record.summary is not None
    finished, stored = kernels.finished(), False
    if slot is not None and not record.refused:
        with record.stage("cache"):
            stored = slot.store(record.wrapper, finished, record.summary)
    with record.stage("load"):
        loaded = way.kept(load(record.wrapper, finished.kernels, constants, file=file))
    if record.manifest is not None:
        from ..manifest.manifest import dump_manifest

        dump_manifest(record, record.manifest, finished.kernels)
    return loaded, stored


def _finished_or_otherwise(way: _Way, finish: Callable[[], tuple[Boxed, bool]]) -> Boxed:
    """`finish()`. A failure is told where the graph is first called, or in the thread, and does with it what the options ask for."""
    try:
        try:
            return finish()[0]
        except Exception as error:
            pass_on(error)
            _raise_as_told(way, error)
    except CompilerError as error:
        return way.kept(run_otherwise(way.gm, way.example_inputs, way.options, way.record, error))


def checks_of(options: Options) -> Checks:
    """The checks that a graph's module makes in each call."""
    return Checks(values=options.nan_asserts, layouts=options.size_asserts)
