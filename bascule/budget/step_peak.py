"""The peak of a training step by the memory plans of its two programs, without a kernel being compiled.

What the step is given is there all the time: parameters, buffers, inputs. The forward adds what it makes; of that the backward finds what is
saved and what is returned. An arena on a CPU that is large enough is kept between calls, one for both, as `runtime/memory/cpu_arena.py` has it.
Where both are replayed as CUDA graphs, the bytes of their pool count, which holds all that they make.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from bascule.frontend.aot.compile_autograd import mark_backward_inputs
from bascule.frontend.fx.graph_ends import VISIBLE, inputs_of, outputs_of
from bascule.frontend.fx.node_values import complete_inserted
from bascule.frontend.fx.storages import storage_of
from bascule.frontend.fx.trace_context import hint
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.importer.graph import import_graph
from bascule.frontend.partitioner.held_tensors import mark_held
from bascule.frontend.partitioner.memory_budget import text_of
from bascule.frontend.partitioner.training_step import tensor_bytes
from bascule.runtime.memory.result_block_pool import LEAST as KEPT

from ..compiler.custom_passes import apply, made_functional
from ..compiler.fx_passes import fx_pipeline
from ..compiler.planned_programs import Planned, Times, digest_of
from ..cudagraphs.cudagraphify import Replays
from ..cudagraphs.unsafe_operators import unrecordable
from ..dialect.analysis.memory.live_bytes import Held, LiveBytes, live_bytes
from ..dialect.host_copies.calls import host_copies
from ..dialect.ir import context
from ..dialect.ir.attributes import OperandAttr
from ..dialect.ir.functions import NULLABLE, OUTPUTS, SYMBOLS, argument_attributes, graph_functions
from ..dialect.ir.locations import source_of
from ..dialect.mlir import ir
from ..errors import UnsupportedError
from ..options import POST_GRAD, Options
from ..pipelines import pipeline_for
from ..reporting.module_summary import copies
from ..targets.placement import placement_of
from ..targets.select import target_for
from .graph_pool import Played, first_product, large_bytes, saved_places, smallest_pool, workspace_of

SYMBOL = 64  # that a symbol is taken for of which no number is known: one that is computed, or that only data decides


@dataclass(frozen=True)
class StepPeak:
    """The bytes of a step. `given`: those of each input, by name, those of a storage once; `forward`, `backward`: what each program adds;
    `kept`: of the arena that both share, if that is kept; `returned`: of what the user sees of the forward, which stays meanwhile."""

    given: dict[str, int]
    forward: LiveBytes
    backward: LiveBytes
    kept: int
    returned: int
    visible: int  # outputs of the forward that the user sees, the first ones
    read: tuple[Node, ...]  # the tensors that the backward is given, as nodes of its graph
    programs: tuple[Planned, Planned]
    pool: int | None = None  # bytes of the pool of CUDA graphs, if both are replayed
    reserved: int = 0  # bytes of it that are to be reserved at once

    @property
    def standing(self) -> int:
        return sum(self.given.values())

    @property
    def peaks(self) -> tuple[int, int]:
        """The peaks of the forward and of the backward."""
        (forward, _), (backward, _) = self._peak_of(self.forward), self._peak_of(self.backward)
        return self.standing + forward, self.standing + self.returned + backward

    @property
    def bytes(self) -> int:
        return max(self.peaks) if self.pool is None else max(*self.peaks, self.standing + self.pool)

    @property
    def how(self) -> str:
        """By what the peak is told."""
        return "by its memory plan" if self.pool is None else f"with a pool of CUDA graphs of {text_of(self.pool)}"

    @property
    def host(self) -> tuple[int, float, float]:
        """Bytes that the forward leaves on the host; seconds of its copies and of the backward's, and of those with nothing beside them."""
        told = [each for each in (copies(planned.module) for planned in self.programs) if each is not None]
        return max((each.bytes for each in told), default=0), sum(x.seconds for x in told), sum(x.exposed for x in told)

    def on_host(self) -> Iterator[tuple[str | None, int]]:
        """The user's line and the bytes of each value that the forward leaves on the host."""
        module = self.programs[0].module
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                ops = [op.operation for op in graph.regions[0].blocks[0].operations]
                for copy in host_copies(ops, table):
                    yield source_of(ops[copy.begin].location), copy.bytes

    @property
    def copies(self) -> str:
        """Bytes and predicted time of the copies to the host and back."""
        bytes_, seconds, exposed = self.host
        return f"{text_of(bytes_)}; {1e3 * seconds:.3f} ms of copies, {1e3 * exposed:.3f} ms exposed, as simulated"

    def held_at_peak(self) -> tuple[str, list[Held]]:
        """The direction in which the peak is, and what its program holds then."""
        forward, backward = self.peaks
        direction, program = ("forward", self.forward) if forward >= backward else ("backward", self.backward)
        return direction, program.at(self._peak_of(program)[1])

    def _peak_of(self, program: LiveBytes) -> tuple[int, int]:
        """The peak of a program, and where. An arena that is too small to be kept is beside the one that is."""
        return program.peak(self.kept, with_arena=not self.kept or program.arena < KEPT)


def step_peak(
    forward: GraphModule, backward: GraphModule, visible: int, options: Options, static: Collection[int] = ()
) -> StepPeak | None:
    """Of a step that the partitioner has split, whose forward returns `visible` outputs to the user and the others to the backward. `static`:
    numbers of the inputs that stay where they are from call to call. Changes both graphs. None where one of them is compiled in parts, so that
    there is no plan of the whole."""
    passes = _quiet(options)
    replayed = Replays(options).are_for(forward)
    if replayed and any(unrecordable(each.graph) for each in (forward, backward)):
        return None
    mark_held(forward, backward, visible)
    forward.graph.output_node().meta[VISIBLE] = visible
    given = _given(forward)
    returned = _returned(forward, visible)
    read = tuple(node for node in inputs_of(backward.graph) if isinstance(node.meta["val"], torch.Tensor))
    on_host = placement_of(forward).device.type == "cpu"
    try:
        first, one = _program(forward, options, passes, is_backward=False)
        then, other = _program(backward, options, passes, is_backward=True)
    except UnsupportedError:
        return None
    arena = max(first.arena, then.arena)
    kept = arena if on_host and arena >= KEPT else 0
    found = StepPeak(given, first, then, kept, returned, visible, read, (one, other))
    if replayed:
        pool, reserved = _pool(found, forward, frozenset(static), options)
        found = replace(found, pool=pool, reserved=reserved)
    return found


def _pool(found: StepPeak, forward: GraphModule, static: Collection[int], options: Options) -> tuple[int, int]:
    """Bytes of the pool of CUDA graphs, and of what is to be reserved of it at once."""
    (one, other), placement = found.programs, placement_of(forward)
    workspace = workspace_of(target_for(options.target, placement).machine)
    stays = {node.name for number, node in enumerate(inputs_of(forward.graph)) if number in static}
    results = _results(forward, one.module)
    copied = [size for name, size in found.given.items() if name not in stays]
    saved = saved_places(found.forward, found.backward, [results.get(each.name) for each in found.read])
    made = {number for place in saved for number in found.backward.held[place].numbers}
    elsewhere = made | _nullable(other.module)
    # A copied input of the forward that is returned for the backward stays for it.
    others = [
        tensor_bytes(node.meta["val"])
        for number, node in enumerate(found.read)
        if number not in elsewhere and node.name not in stays
    ]
    first = Played(found.forward, copied, workspace, first_product(one.module), large_bytes(found.forward))
    return smallest_pool(first, Played(found.backward, others, workspace, first_product(other.module)), saved)


def _nullable(module: ir.Module) -> set[int]:
    """The numbers, among the tensors that a program is given, of those that mostly have no memory."""
    with module.context:
        (graph,) = graph_functions(module)
        arguments = zip(graph.regions[0].blocks[0].arguments, argument_attributes(graph), strict=True)
        tensors = [kinds for argument, kinds in arguments if isinstance(argument.type, ir.MemRefType)]
        return {number for number, kinds in enumerate(tensors) if NULLABLE in kinds}


def _results(forward: GraphModule, module: ir.Module) -> dict[str, int]:
    """The numbers of the results of a forward's program, by the names of what its graph returns."""
    with module.context:
        (graph,) = graph_functions(module)
        outputs = [each.index if isinstance(each, OperandAttr) else None for each in graph.attributes[OUTPUTS]]
    pairs = zip(outputs_of(forward.graph), outputs, strict=True)
    return {
        node.name: ir.IntegerAttr(number).value
        for node, number in pairs
        if number is not None and isinstance(node, Node)
    }


def _quiet(options: Options) -> FxPipeline:
    """The passes over FX graphs that `options` ask for, unwatched: what is tried is neither printed nor dumped."""
    asked = fx_pipeline("", options)
    return FxPipeline(asked.settings, asked.disabled, interpreted=asked.interpreted)


def _program(gm: GraphModule, options: Options, passes: FxPipeline, *, is_backward: bool) -> tuple[LiveBytes, Planned]:
    inputs = [node.meta["val"] for node in inputs_of(gm.graph)]
    complete_inserted(gm.graph, inputs)
    if is_backward:
        mark_backward_inputs(gm)
    if apply(gm, options, POST_GRAD):
        gm = made_functional(gm)
    if not is_backward:
        passes.run("checks", gm)
    placement = placement_of(gm)
    target = target_for(options.target, placement)
    module = import_graph(gm, inputs, context=context()).module
    placement.annotate(module)
    pipeline, times = pipeline_for(options, target.machine, trained=True), Times()
    digest = digest_of(module, pipeline)
    pipeline.run(module, verify=None, observers=[times.observe], subject="a step that is tried for a memory budget")
    numbers = _numbers(module, inputs)
    threads = torch.get_num_threads() if placement.device.type == "cpu" else 0
    found = live_bytes(module, lambda k: numbers[k] if k < len(numbers) else SYMBOL, threads)
    return found, Planned(digest, module, times.seconds)


def _numbers(module: ir.Module, inputs: list[Any]) -> list[int]:
    """The numbers that the symbols of a graph stood for when it was traced."""
    seen = {}
    for value in inputs:
        for number in (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,):
            if isinstance(number, torch.SymInt):
                seen[str(number.node.expr)] = hint(number)
    (graph,) = graph_functions(module)
    names = [name.value for name in graph.attributes[SYMBOLS]] if SYMBOLS in graph.attributes else []
    found = (seen.get(name) for name in names)
    return [SYMBOL if number is None else int(number) for number in found]


def _given(forward: GraphModule) -> dict[str, int]:
    """Bytes of the inputs, by name; 0 for one whose storage another has."""
    sizes, seen = dict[str, int](), set[Any]()
    for node in inputs_of(forward.graph):
        storage = storage_of(node) or node
        sizes[node.name] = 0 if storage in seen else tensor_bytes(node.meta["val"])
        seen.add(storage)
    return sizes


def _returned(forward: GraphModule, visible: int) -> int:
    """Bytes of what the user sees of a forward that is neither an input's memory nor saved too: the backward is given what is saved."""
    outputs = outputs_of(forward.graph)
    seen = {storage_of(node) for node in inputs_of(forward.graph)}
    total = 0
    for node in outputs[:visible]:
        if isinstance(node, Node) and storage_of(node) not in seen:
            seen.add(storage_of(node))
            total += tensor_bytes(node.meta.get("val"))
    return total
