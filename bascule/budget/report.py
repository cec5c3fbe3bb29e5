"""`bascule.memory`: what holds memory when a training step holds most, how fast it could be with less, and how little it needs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.fx.stack_traces import location_of
from bascule.frontend.partitioner.joint_splits import Pair
from bascule.frontend.partitioner.memory_budget import Search, text_of
from bascule.frontend.partitioner.min_cut import min_cut

from ..compat.graphs.dynamo import reset
from ..compiled.eager import operator_by_operator
from ..compiler.custom_passes import apply, partitioner
from ..compiler.decompositions import decompositions_for
from ..compiler.fx_passes import fx_pipeline
from ..dialect.analysis.memory.live_bytes import GIVEN, RESULT, Held
from ..errors import UserError
from ..options import PRE_GRAD, Options, options_for
from ..reporting.one_at_a_time import one_at_a_time
from ..reporting.raise_through_dynamo import raised_as_is
from .partition import search_of
from .step_peak import StepPeak

HOST = "host"  # the category of what is kept there, which is not in the peak
CATEGORIES = ("parameters", "inputs", "outputs", "saved", "gradients", "temporaries")
POINTS = 6  # of a curve, at most
LINES = 12  # of the text, at most


@dataclass(frozen=True)
class Holder:
    """Memory that one line of the user's holds at the peak."""

    bytes: int
    category: str  # one of `CATEGORIES`, or `HOST`
    line: str | None  # "model.py:12"; None of what no line of the model makes

    def __str__(self) -> str:
        return f"{text_of(self.bytes):>12} {self.category}" + (f", {self.line}" if self.line else "")


@dataclass(frozen=True)
class Point:
    """A budget in `bytes` and the predicted time of a step within it, as a multiple of that without one. `lowered`: saved values that are kept
    in fewer bits for it, where the option 'memory_budget_precision' allows it. `host`: bytes that are on the host meanwhile, where
    'memory_budget_host' allows it; seconds, predicted, of their `copies` and of those `exposed`, beside which nothing is computed."""

    bytes: int
    time: float
    lowered: int = 0
    host: int = 0
    copies: float = 0.0
    exposed: float = 0.0

    def __str__(self) -> str:
        lowered = f", {self.lowered} saved values in fewer bits" if self.lowered else ""
        host = f", {text_of(self.host)} on the host, copied in {1e3 * self.copies:.3f} ms, {1e3 * self.exposed:.3f} of them exposed"
        return f"{text_of(self.bytes, up=True):>12} {self.time:.2f}{lowered}{host if self.host else ''}"


@dataclass(frozen=True)
class StepMemory:
    """The memory of one training step, forward and backward of a graph that Dynamo captured, without a budget. All in bytes."""

    peak: int
    direction: str  # in which the peak is, "forward" or "backward"
    categories: dict[str, int]  # of `CATEGORIES`: they sum up to the peak
    holders: tuple[Holder, ...]  # the largest first
    least: int  # the smallest budget that is possible
    curve: tuple[Point, ...]  # growing bytes, falling time
    host: tuple[Holder, ...] = ()  # what the smallest budget keeps on the host, the largest first

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {text_of(count)}" for name, count in self.categories.items() if count)
        lines = [f"a peak of {text_of(self.peak)}, in the {self.direction}: {shares}"]
        lines += [f"  {holder}" for holder in self.holders[:LINES]]
        if len(self.holders) > LINES:
            lines.append(
                f"  {text_of(sum(each.bytes for each in self.holders[LINES:])):>12} in {len(self.holders) - LINES} others"
            )
        lines.append(f"the least budget: {text_of(self.least, up=True)} ({self.least} bytes)")
        if self.host:
            lines.append(f"on the host within it: {text_of(sum(each.bytes for each in self.host))}")
            lines += [f"  {holder}" for holder in self.host[:LINES]]
        lines.append("time of a step within a budget, predicted, as a multiple of that without one:")
        lines += [f"  {point}" for point in self.curve]
        return "\n".join(lines)


@dataclass(frozen=True)
class MemoryReport:
    """The findings of `bascule.memory`, a step a graph; `str()` gives the text. `untold`: why a graph has none."""

    steps: tuple[StepMemory, ...]
    untold: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [*map(str, self.steps), *self.untold]
        return "\n\n".join(told) if told else "no graph was captured that needs gradients"


@one_at_a_time
def memory(
    function: Callable[..., Any],
    *args: Any,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> MemoryReport:
    """The memory of a training step of `function` (or an nn.Module), which is traced and run forward once, operator by operator.

    `mode`, `options` and `dynamic` are those of `torch.compile`. The bytes are those of the memory plans of the step's programs; times are
    predicted. Raises `UserError` for what is no function, and for options that a memory budget does not go with.
    """
    if not callable(function):
        raise UserError(f"takes a function or a module, got {function!r}", location="memory")
    asked = {"memory_budget": 1.0, **(options or {})}  # whose checks are those of any budget
    checked = replace(options_for(mode, asked), memory_budget=1.0)
    steps, untold = list[StepMemory](), list[str]()

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        with raised_as_is():
            apply(gm, checked, PRE_GRAD)
            passes = fx_pipeline("memory", checked, captured=True)
            split = partial(_split, checked, example_inputs, steps, untold)
            cut = partitioner(checked, passes, partial(min_cut, passes=passes, split=split))
            return compile_with_autograd(
                gm, example_inputs, _by_operators, decompositions_for(checked), cut, passes=passes
            )

    reset()
    with torch.enable_grad():
        torch.compile(function, backend=backend, dynamic=dynamic)(*args, **kwargs)
    return MemoryReport(tuple(steps), tuple(untold))


def _by_operators(gm: GraphModule, example_inputs: Sequence[Any], **direction: bool) -> Any:
    return operator_by_operator(gm)


def _split(
    options: Options,
    example_inputs: Sequence[Any],
    steps: list[StepMemory],
    untold: list[str],
    joint: GraphModule,
    inputs: Any,
    **kwargs: Any,
) -> Pair:
    """Min-cut's forward and backward of `joint`, of whose memory `steps` is told, or `untold` why there is nothing to tell."""
    search = search_of(options, joint, inputs, kwargs)
    if search.unlimited.measured is not None:
        steps.append(_told(search, search.unlimited.measured, _parameters(example_inputs)))
    else:
        untold.append(f"a graph of {len(joint.graph.nodes)} nodes is compiled in parts: no plan tells its peak")
    return search.pair(search.usual)


def _told(search: Search[StepPeak], found: StepPeak, parameters: frozenset[str]) -> StepMemory:
    direction, held = found.held_at_peak()
    holders = Counter[tuple[str, str | None]]()
    for name, count in found.given.items():
        holders["parameters" if name in parameters else "inputs", None] += count
    for category, line, count in _holders(found, direction, held):
        holders[category, line] += count
    least, curve = search.peak_of(search.least), search.curve(POINTS)
    return StepMemory(
        peak=found.bytes,
        direction=direction,
        categories={name: sum(n for (category, _), n in holders.items() if category == name) for name in CATEGORIES},
        holders=tuple(Holder(count, *key) for key, count in holders.most_common() if count),
        least=least.bytes,
        curve=tuple(
            Point(peak.bytes, choice.time, len(choice.lowered), *(peak.measured.host if peak.measured else ()))
            for peak, choice in curve
        ),
        host=tuple(_on_host(least.measured)),
    )


def _on_host(found: StepPeak | None) -> Iterator[Holder]:
    """Memory on the host of a step, by line, the largest first."""
    lines = Counter[str | None]()
    for place, count in () if found is None else found.on_host():
        lines[None if place is None else place.rpartition(":")[0]] += count
    for line, count in lines.most_common():
        yield Holder(count, HOST, line)


def _holders(found: StepPeak, direction: str, held: Sequence[Held]) -> Iterator[tuple[str, str | None, int]]:
    """Category, line and bytes of what is held at the peak beside what the step is given."""
    forward = direction == "forward"
    if not forward:
        yield "outputs", None, found.returned
    kept = found.bytes - found.standing - sum(each.bytes for each in held) - (0 if forward else found.returned)
    yield "temporaries", None, kept  # of the arena that is kept between calls, beyond what this program uses of it
    for each in held:
        line = None if each.place is None else each.place.rpartition(":")[0]
        if each.kind == RESULT:
            visible = any(number < found.visible for number in each.numbers)
            yield "gradients" if not forward else "outputs" if visible else "saved", line, each.bytes
        elif each.kind == GIVEN:
            node = found.read[each.numbers[0]]
            tangent = node.name.startswith("tangents_")
            yield "gradients" if tangent else "saved", location_of(node), each.bytes
        else:
            yield "temporaries", line, each.bytes


def _parameters(example_inputs: Sequence[Any]) -> frozenset[str]:
    """The names, in a joint graph, of the inputs that are parameters."""
    return frozenset(f"primals_{n}" for n, x in enumerate(example_inputs, 1) if isinstance(x, torch.nn.Parameter))
