"""Graphs that are split, because some of their operators have to run by themselves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Protocol

import torch

from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx.graph_ends import RESTRIDED
from bascule.frontend.fx.storages import changes_input
from bascule.frontend.graph_split.find_split_points import known_cuts, refused
from bascule.frontend.graph_split.flex_attention_chunks import query_chunks
from bascule.frontend.graph_split.higher_order_decompositions import dense_form
from bascule.frontend.graph_split.split_module import Step, Submodule, split_module
from bascule.frontend.graph_split.split_point import cut_at
from bascule.runtime.boxed import Boxed
from bascule.runtime.memory.tensor_serialization import told_of
from bascule.runtime.modules.higher_order import below_autograd
from bascule.runtime.modules.split_graph import ROLES, load_split, located

from ..aliasing.loop_bodies import LOOPS, give_each_element_its_place
from ..compat.tensors.pytree import treespec_dumps
from ..compiled.compiled_graph import CompiledGraph, NotSerializable
from ..compiled.deferred import FinishedAtFirstCall, once_finished
from ..compiled.serialized import SerializedConstant, SerializedSplit, serialized_object
from ..errors import UnsupportedError
from ..reporting.compile_record import Record
from ..reporting.counters import count
from .split_wrapper import Called, SplitWrapper

# (a graph, its example inputs, what to add to its name) -> the compiled graph. The first raises what the compiler does, and its record is
# reported by the caller; the second is `compile_graph`.
CompileSubgraph = Callable[[torch.fx.GraphModule, Sequence[Any], str], tuple[CompiledGraph, Record]]
CompileBody = Callable[[torch.fx.GraphModule, Sequence[Any], str], CompiledGraph]


class Finish(Protocol):
    """The last step for the compiled graph of `gm`."""

    def __call__(self, graph: CompiledGraph, gm: torch.fx.GraphModule, record: Record) -> CompiledGraph: ...


# Higher-order operators whose graphs are called with tensors like those they were traced with, so that they can be compiled.
_COMPILED_BODIES = ("cond", "switch", *LOOPS, "map_impl", "invoke_subgraph")


def as_it_is(graph: CompiledGraph, gm: torch.fx.GraphModule, record: Record) -> CompiledGraph:
    return graph


def compile_split(
    gm: torch.fx.GraphModule,
    record: Record,
    error: UnsupportedError | None,
    compile_subgraph: CompileSubgraph,
    compile_body: CompileBody,
    apart: Mapping[torch.fx.Node, str],
    finish: Finish = as_it_is,
) -> tuple[CompiledGraph, list[Record]] | None:
    """`gm` as compiled parts and the operators between them: those of `apart`, and those that `error` is about, which is why.

    `finish` is what is done to each compiled part at last. Returns the compiled graph and the records of its parts; notes in `record` where
    and why it was cut. None if `error` is not about an operator.
    """
    cuts, compiled = known_cuts(gm.graph, apart), dict[tuple, tuple[CompiledGraph, Record]]()
    # What is known beforehand may be why something else was refused.
    refusal: UnsupportedError | None = None if cuts else error
    while True:
        if refusal is not None:
            reason = refusal.message.removeprefix(f"{refusal.operator}: ")
            found = {node: reason for node in refused(gm.graph, refusal) if node not in cuts}
            if not found:
                return None
            cuts |= found
        try:
            steps = split_module(gm, cuts)
            parts = [step for step in steps if isinstance(step, Submodule)]
            for number, part in enumerate(parts):
                if _key(part) not in compiled:
                    inputs = [x.meta["val"] for x in part.gm.graph.nodes if x.op == "placeholder"]
                    compiled[_key(part)] = compile_subgraph(part.gm, inputs, f"part{number}")
            break
        except UnsupportedError as again:
            refusal = again
    record.cuts = [cut_at(node, reason) for node, reason in cuts.items()]
    for cut in record.cuts:
        count("cuts", f"{cut.operator}: {cut.reason}")
    finished = {}
    for part in parts:
        graph, told = compiled[_key(part)]
        finished[part] = once_finished(graph, partial(finish, gm=part.gm, record=told))
    run = _split_graph(gm, steps, finished, record, compile_body)
    return run, [compiled[_key(part)][1] for part in parts]


def _key(part: Submodule) -> tuple:
    return tuple(x.name for x in part.gm.graph.nodes), part.inputs, part.outputs


def _split_graph(
    gm: torch.fx.GraphModule,
    steps: Sequence[Step],
    parts: dict[Submodule, CompiledGraph],
    record: Record,
    compile_body: CompileBody,
) -> CompiledGraph:
    """Runs `steps`, as one compiled graph."""
    wrapper = SplitWrapper(gm, steps)
    record.wrapper = located(wrapper.source.text(), wrapper.source.locations)
    file = record.dump_wrapper(record.wrapper)
    given = list[_InRole | Any]()
    for name, needed in wrapper.constants.items():
        match needed:
            case Submodule():
                needed = _InRole("part", parts[needed], name)
            case torch.fx.GraphModule() if wrapper.callers[name] in _COMPILED_BODIES:
                if wrapper.callers[name] in LOOPS:
                    give_each_element_its_place(needed)
                needed = _body(needed, name, compile_body)
            case torch.fx.Node():
                needed = _dense(gm, needed, name, compile_body)
        given.append(needed)
    load_ = partial(load_split, record.wrapper, file=file)
    run = load_([_callee(needed, lambda graph: graph.call) for needed in given])
    meanwhile = None
    if any(isinstance(x, _InRole) and x.graph.meanwhile is not None for x in given):
        meanwhile = load_([_callee(needed, lambda graph: graph.meanwhile or graph.call) for needed in given])
    serialized, later = _serialized(wrapper, given, record), _all_finished(run, given)
    if later is None:
        return CompiledGraph(run, serialized, meanwhile=meanwhile)
    return CompiledGraph(later, serialized, finish=later.finished, meanwhile=meanwhile)


def _callee(needed: Any, runs: Callable[[CompiledGraph], Boxed]) -> Any:
    """The thing that a split wrapper calls, or holds: `runs` says which way a graph is run."""
    match needed:
        case _InRole():
            return ROLES[needed.role](runs(needed.graph), **needed.settings)
        case Called():
            return below_autograd(needed.operator)
    return needed


def _all_finished(run: Boxed, given: Sequence[Any]) -> FinishedAtFirstCall | None:
    """`run`, at whose first call all its graphs are finished, those too that nothing may ever call: the disk cache has it with all. None if all
    are finished already."""
    later = [x.graph for x in given if isinstance(x, _InRole) and x.graph.finish is not None]

    def finish() -> Boxed:
        for graph in later:
            graph.finished()
        return run

    return FinishedAtFirstCall(finish) if later else None


@dataclass(frozen=True)
class _InRole:
    """A compiled graph that the split wrapper calls; `name`: what it adds to the name of the whole."""

    role: str
    graph: CompiledGraph
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def serialized(self) -> SerializedConstant:
        return SerializedConstant(self.role, self.name, self.settings, graph=self.graph.entry())


def _serialized(wrapper: SplitWrapper, given: Sequence[Any], record: Record) -> SerializedSplit | NotSerializable:
    """Serializes the split wrapper for the disk cache; or tells why it cannot."""
    constants = []
    try:
        for needed in given:
            match needed:
                case _InRole():
                    constants.append(needed.serialized())
                case Called():
                    constants.append(serialized_object(needed.operator, called=True))
                case _:
                    constants.append(serialized_object(needed, called=False))
    except NotSerializable as reason:
        return reason
    return SerializedSplit(wrapper.source.text(), wrapper.source.locations, record.cuts, constants, record.nodes)


def _body(gm: torch.fx.GraphModule, name: str, compile_body: CompileBody) -> _InRole:
    """A graph that a higher-order operator calls, compiled."""
    single = not isinstance(gm.graph.output_node().args[0], list | tuple)
    return _InRole("body", compile_body(gm, _given(gm), name), name, {"single": single})


def _dense(gm: torch.fx.GraphModule, node: torch.fx.Node, name: str, compile_body: CompileBody) -> _InRole:
    """The dense form of a higher-order operator, compiled."""
    chunks = query_chunks(gm, node, decomposition_table())
    if chunks is not None:
        settings = {x.name: getattr(chunks, x.name) for x in fields(chunks) if x.name != "graph"}
        settings["results"] = [told_of(x) for x in chunks.results]
        return _InRole("chunks", compile_body(chunks.graph, _given(chunks.graph), name), name, settings)
    traced, structure = dense_form(gm, node, decomposition_table())
    settings = {"structure": treespec_dumps(structure)}
    return _InRole("dense", compile_body(traced, _given(traced), name), name, settings)


def _given(gm: torch.fx.GraphModule) -> list[Any]:
    """The fake values of a body's inputs; notes on these that who calls the body does not keep to their strides.

    A number that the trace of the body took for a constant has no value there, and nothing uses it.
    """
    nodes = gm.graph.find_nodes(op="placeholder")
    for node in nodes:
        if not node.users:
            node.meta.setdefault("val", 0)
        node.meta[RESTRIDED] = not any(map(changes_input, node.users))
    return [node.meta["val"] for node in nodes]
