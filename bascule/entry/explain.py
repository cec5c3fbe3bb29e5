"""`bascule.explain`: what became of a function, in text and as objects."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from bascule.frontend.fx_pipeline.pipeline import FxRun

from ..compat.graphs.dynamo import reset
from ..compat.tensors.pytree import tree_leaves
from ..dialect.remarks.record import Remark
from ..errors import UserError
from ..reporting.compile_record import Record
from ..reporting.counters import counters
from ..reporting.graph_summary import AtenCall, HostCopies, Kernel, Memory, Overlap, Summary
from ..reporting.one_at_a_time import one_at_a_time
from .backend import compile_dynamo_graph

CACHES = ("traces", "cache")  # groups of counters


@dataclass(frozen=True)
class GraphExplanation:
    """One compiled graph. A training step has two for each graph that Dynamo captured: forward and backward."""

    name: str
    nodes: int
    target: str  # what its kernels were compiled for
    runs: int  # sequences of launches without anything else between them: on a GPU, each is one call of a plan
    kernels: tuple[Kernel, ...]
    aten: tuple[AtenCall, ...]
    assertions: int  # about elements: indices in range, divisors that are not 0
    memory: Memory | None
    overlap: Overlap | None
    copies: HostCopies | None  # with the option `memory_budget_host`
    remarks: tuple[Remark, ...]  # of passes: what was decided, about which operators, why, at what cost
    fallback: str | None  # why the graph was not compiled, if it was not
    refused: tuple[str, ...]  # kernels that did not compile, whose operators run in PyTorch: name, reason, reproducer
    untuned: str | None  # with the option `max_autotune`: why no schedule was measured
    replay: str | None  # with the option `cudagraphs` on a GPU: how it is replayed, or why not
    tier: str | None  # with the option `tiers`: what ran it until its kernels were there
    cuts: tuple[str, ...]  # operators that run between its parts, which follow it: operator, reason, the user's line
    seconds: dict[str, float]  # stage or pass -> time
    wrapper: str | None  # the Python module that runs the graph
    fx_passes: tuple[
        FxRun, ...
    ] = ()  # that ran for it; of the captured and the joint graph, for the first of the graphs that came of it

    @property
    def loaded(self) -> bool:
        """Whether it came from the disk cache, and nothing was compiled."""
        return self.wrapper is not None and "load" in self.seconds and "wrapper" not in self.seconds

    @staticmethod
    def of(record: Record) -> "GraphExplanation":
        told = (record.compiled and record.summary) or Summary((), (), None, (), 0)
        return GraphExplanation(
            name=record.name,
            nodes=record.nodes,
            target=record.target,
            runs=told.runs,
            kernels=told.kernels,
            aten=told.aten,
            assertions=told.assertions,
            memory=told.memory,
            overlap=told.overlap,
            copies=told.copies,
            remarks=told.remarks,
            fallback=record.fallback,
            refused=tuple(record.refused),
            untuned=record.untuned,
            replay=record.replay,
            tier=record.tier,
            cuts=tuple(map(str, record.cuts)),
            seconds=dict(record.seconds),
            wrapper=record.wrapper,
            fx_passes=tuple(record.fx_runs),
        )

    def __str__(self) -> str:
        how = "loaded from the disk cache" if self.loaded else "compiled"
        lines = [f"{self.name}: {_plural(self.nodes, 'node')}, {how} in {sum(self.seconds.values()):.2f} s"]
        if self.fallback is not None:
            lines[0] = f"{self.name}: {_plural(self.nodes, 'node')}"
            lines.append(f"  NOT COMPILED: {self.fallback}")
        if self.cuts:
            lines.append("  compiled in parts; these operators run by themselves")
            lines += [f"    {cut}" for cut in self.cuts]
        if self.kernels:
            launches = sum(k.calls for k in self.kernels)
            planned = "" if self.target == "cpu" else f" in {_plural(self.runs, 'run')}"
            what = f"{_plural(launches, 'launch', 'launches')} of {_plural(len(self.kernels), 'kernel')}"
            lines.append(f"  {what}{planned}, for the target '{self.target}'")
            for k in self.kernels:
                lines.append(f"    {k.name}{_times(k.calls)} over {k.domain}: {', '.join(k.operators)}")
                if k.tuned is not None:
                    lines.append(f"      measured: {k.tuned}")
        if self.untuned is not None:
            lines.append(f"  max_autotune measured nothing: {self.untuned}")
        if self.refused:
            lines.append(f"  not compiled, of these: {len(self.refused)}, whose operators run in PyTorch, slowly")
            lines += [f"    {kernel}" for kernel in self.refused]
        if self.aten:
            lines.append(f"  {_plural(sum(a.calls for a in self.aten), 'call')} of ATen")
            lines += [f"    {a.calls:4} {a.operator}: {a.reason}" for a in self.aten]
        if self.assertions:
            lines.append(f"  {_plural(self.assertions, 'assertion')} about elements")
        if self.memory is not None:
            lines.append(f"  memory: {self.memory}")
        if self.overlap is not None:
            lines.append(f"  collectives: {self.overlap}")
        if self.copies is not None:
            lines.append(f"  memory budget: {self.copies}")
        if self.replay is not None:
            lines.append(f"  CUDA graph: {self.replay}")
        if self.tier is not None:
            lines.append(f"  tiers: {self.tier}")
        if self.remarks:
            lines.append(f"  {_plural(len(self.remarks), 'remark')}")
            said = Counter(map(str, self.remarks))  # layers that are alike say the same
            lines += [f"    {remark}{_times(n)}" for remark, n in said.items()]
        if self.fx_passes:
            changing = [run for run in self.fx_passes if run.changes]
            spent = 1e3 * sum(run.seconds for run in self.fx_passes)
            what = f"{_plural(len(self.fx_passes), 'FX pass', 'FX passes')} in {spent:.1f} ms"
            lines.append(f"  {what}, of which {len(changing) or 'none'} changed the graph")
            lines += [f"    {run}" for run in self.fx_passes if run.changes or run.notes]
        stages = [f"{stage} {1e3 * t:.0f} ms" for stage, t in self.seconds.items() if t >= 5e-4]
        short = len(self.seconds) - len(stages)
        lines.append("  time: " + ", ".join([*stages, *([f"{short} others under 1 ms"] if short else [])]))
        return _short("\n".join(lines))


@dataclass(frozen=True)
class Explanation:
    """The findings of `bascule.explain`; `str()` gives the text."""

    graphs: tuple[GraphExplanation, ...]
    breaks: tuple[str, ...] = ()  # where Dynamo ended a graph before the function's end: the user's line and why
    # Group of counters -> counter -> what it gained: what the disk cache and the remote one did with traces, graphs and kernels.
    caches: dict[str, dict[str, int]] = field(default_factory=dict)
    hooked: str | None = None  # who begins collectives between the graphs

    def __str__(self) -> str:
        graphs = [str(graph) for graph in self.graphs] or ["no graph was compiled"]
        if self.breaks:
            lines = [f"{_plural(len(self.breaks), 'graph break')} of Dynamo's", *(f"  {line}" for line in self.breaks)]
            graphs.append(_short("\n".join(lines)))
        if self.hooked is not None:
            why = "bascule.predict_collectives(step, model) predicts them"
            graphs.append(f"collectives that {self.hooked} begins between the graphs are not told here: {why}")
        told = [
            f"{group}: " + ", ".join(f"{number} {what}" for what, number in gained.items())
            for group, gained in self.caches.items()
        ]
        return "\n\n".join([*graphs, *(["; ".join(told)] if told else [])])


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _times(number: int) -> str:
    return f" ({number} times)" if number != 1 else ""


def _short(text: str) -> str:
    """Without what is the same of all places: the folders of installed packages, the current one, and columns, which FX does not know."""
    text = re.sub(r"/[^\s:'()]*/(?:site|dist)-packages/", "", text).replace(f"{os.getcwd()}/", "")
    return re.sub(r"(\.py:\d+):0\b", r"\1", text)


@one_at_a_time
def explain(
    function: Callable[..., Any],
    *args: Any,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles `function` (or an nn.Module), runs it once on the arguments, and tells what was compiled.

    Where an output requires gradients, the backward of the sum of such outputs is compiled too; gradients of leaves
    are not touched. `mode`, `options` and `dynamic` are those of `torch.compile`. Raises as compiling would.
    """
    if not callable(function):
        raise UserError(f"takes a function or a module, got {function!r}", location="explain")
    watched = Watched(function, mode=mode, options=options, dynamic=dynamic)
    before = counters()
    watched.run(*args, **kwargs)
    after = counters()
    gained = {group: dict(Counter(after[group]) - Counter(before[group])) for group in CACHES}
    return Explanation(
        tuple(GraphExplanation.of(record) for record in watched.records),
        tuple(watched.breaks),
        {group: found for group, found in gained.items() if found},
        _hooked(function),
    )


def _hooked(function: Callable[..., Any]) -> str | None:
    """Who begins collectives of a module besides its graphs."""
    if not isinstance(function, torch.nn.Module) or not (dist.is_available() and dist.is_initialized()):
        return None
    from ..compat.tensors.data_parallel import buckets_of, sharded_units

    return "DDP" if buckets_of(function) is not None else "FSDP2" if sharded_units(function) else None


class Watched:
    """A function that is compiled anew, and what its compiles tell: the record of each graph, and where Dynamo broke graphs."""

    def __init__(
        self, function: Callable[..., Any], *, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None
    ):
        self.records: list[Record] = []
        self.breaks: list[str] = []

        def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            self.breaks.extend(_break_after(gm))
            return compile_dynamo_graph(gm, example_inputs, mode=mode, options=options, on_record=self.records.append)

        # Code that was compiled before, by whatever backend, is not what is to be told of.
        reset()
        self.compiled = torch.compile(function, backend=backend, dynamic=dynamic)

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Runs it, and the backward of the sum of outputs that require gradients."""
        run_backward(self.compiled(*args, **kwargs))
        if "bascule.tiers.background" in sys.modules:  # what is compiled beside the program is to be told of too
            sys.modules["bascule.tiers.background"].wait_for_kernels()


def _break_after(gm: torch.fx.GraphModule) -> Iterator[str]:
    """Why Dynamo ended the graph `gm`, if that was not the function's end."""
    ended = getattr(gm, "compile_subgraph_reason", None)
    if ended is None or not ended.graph_break:
        return
    lines = [line.strip() for line in ended.reason.splitlines() if line.strip()]
    kept = lines[:1] + [line.removeprefix("Explanation: ") for line in lines[1:] if line.startswith("Explanation: ")]
    frame = ended.user_stack[-1] if ended.user_stack else None
    yield (f"{frame.filename}:{frame.lineno}: " if frame else "") + ": ".join(kept)


def run_backward(out: Any) -> None:
    """Runs the backward of `out` towards all leaves, without touching any `.grad`."""
    outputs = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves = _leaves(outputs)
    if leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(x) for x in outputs], allow_unused=True)


def _leaves(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors whose gradients a backward of `outputs` would accumulate."""
    todo, seen, leaves = [x.grad_fn for x in outputs], set(), []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        todo += [following for following, _ in node.next_functions]
    return leaves
