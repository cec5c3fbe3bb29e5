"""A training step within a budget of bytes: what is saved is chosen so that the peak keeps it, in the least time.

Min-cut's choice stays where it keeps the budget. Else an integer program chooses (`saved_program.py`); the forward and the backward that come of
its choice are compiled as far as their memory plans, which tell the peak; where that is too high, the program is asked for as much less.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest.mock import patch

from bascule.dialect.errors import UserError
from torch.fx import Graph, GraphModule, Node

from bascule.compat.graphs.partitioners import partitioners

from ..fx.graph_ends import CHUNKED
from .chunked_rows import by_chunks
from .dropout_masks import results_from_masks
from .predicted_peak import number_again, peak, time_again
from .saved_program import STAGES, SavedProgram
from .training_step import Step, is_number

ROUNDS = 6  # choices that are compiled for one budget, at most
TRIES = 3  # solutions of the program for one choice, at most
CLOSE = 0.03  # of the budget: a choice whose peak is no lower is good enough
SLACK = 0.002  # of the budget, by which a choice that is too high yet is asked to be lower than it need be
OPTION = "option 'memory_budget'"

Names = tuple[str, ...]
Key = tuple[Names, int]
Pair = tuple[GraphModule, GraphModule]


@dataclass(frozen=True)
class Peak:
    """`bytes` that a step holds at most; `exact`: by the memory plans of its programs, else by its joint graph."""

    bytes: int
    exact: bool = True


@dataclass(frozen=True)
class Choice:
    """Values that a forward saves, by name. `again`: calls that the backward makes again; `time`: of the step, predicted, as a multiple of that
    of min-cut's choice. `chunks`: the bytes from which on tensors are made by chunks of rows; 0: all are whole."""

    names: Names
    predicted: int  # bytes, by the joint graph
    again: int
    time: float
    chunks: int = 0

    @property
    def key(self) -> "Key":
        return self.names, self.chunks


@dataclass(frozen=True)
class Outcome:
    """The end of a search: the `budget` in bytes, the peak of the step, and that without a budget."""

    budget: int
    peak: Peak
    unlimited: Peak
    choice: Choice
    rounds: int  # choices that were compiled

    def __str__(self) -> str:
        how = "by its memory plan" if self.peak.exact else "predicted: it is compiled in parts"
        chunks = ", the largest product by chunks of its rows" if self.choice.chunks else ""
        again = f"{self.choice.again} {'call' if self.choice.again == 1 else 'calls'} computed again in the backward{chunks}"
        return (
            f"a peak of {text_of(self.peak.bytes)} ({how}) within a budget of {text_of(self.budget)}, {text_of(self.unlimited.bytes)} "
            f"without one; {again}, {self.choice.time:.2f} times the time without a budget (predicted); {self.rounds} choices compiled"
        )


# The peak of the two graphs of a choice; None where they tell none: they are compiled in parts.
Measure = Callable[[GraphModule, GraphModule], int | None]


@dataclass
class Search:
    """The choices for one joint graph, each compiled once. `measure`: of graphs as compiled with a budget; `measure_without`: without one."""

    joint: GraphModule
    inputs: Any
    measure: Measure
    measure_without: Measure
    how: dict[str, Any]  # is given to the partitioner
    peaks: dict[Key, Peak] = field(default_factory=dict)

    def split(self, names: Names | None, *, prepared: bool = True, final: bool = False) -> tuple[Pair, "_Seen"]:
        """Forward and backward that save the values `names`; None: those of min-cut. Of a copy of the joint graph if this is not `final`;
        `prepared`: so that more of it can be computed again."""
        joint = self.joint if final else _copy(self.joint)
        if prepared:
            results_from_masks(joint.graph)
        with _saving(names) as seen:
            return partitioners.min_cut_rematerialization_partition(joint, self.inputs, **self.how), seen

    def final(self, choice: Choice) -> Pair:
        """Forward and backward of a choice. Changes the joint graph."""
        usual = choice is self.usual
        return _marked(choice, self.split(None if usual else choice.names, prepared=not usual, final=True)[0])

    @cached_property
    def usual(self) -> Choice:
        """Min-cut's choice, on the graph as it is."""
        pair, seen = self.split(None, prepared=False)
        choice = Choice((), 0, 0, 1.0)
        if seen.graph is not None:
            step = Step.of(seen.graph, seen.info)
            choice = _choice(step, seen.nodes, seen.nodes)
        self._measured(choice, pair)
        return choice

    @cached_property
    def programs(self) -> list[SavedProgram]:
        """The integer programs of the choices; none where nothing is differentiated: there is no backward to save for."""
        _, seen = self.split(None)
        if seen.graph is None:
            return []
        step = Step.of(seen.graph, seen.info)
        chunked = by_chunks(step, self.usual.predicted)
        return [SavedProgram(each, seen.nodes) for each in (step, chunked) if each is not None]

    def peak_of(self, choice: Choice) -> Peak:
        """The peak of a choice, by the programs that come of it."""
        if choice.key not in self.peaks:
            self._measured(choice, self.split(choice.names)[0])
        return self.peaks[choice.key]

    @cached_property
    def unlimited(self) -> Peak:
        """The peak without a budget."""
        return _peak(self.usual, self.measure_without(*self.split(None, prepared=False)[0]))

    def _measured(self, choice: Choice, pair: Pair) -> None:
        self.peaks[choice.key] = _peak(choice, self.measure(*_marked(choice, pair)))

    # Choices within a number of bytes

    def within(self, limit: int | float) -> Outcome:
        """The step with at most `limit` bytes, or that part of the peak without a budget. Raises `UserError` where that is not possible."""
        budget = limit if isinstance(limit, int) else int(limit * self.unlimited.bytes)
        if self.peak_of(self.usual).bytes <= budget:
            return self._outcome(budget, self.usual)
        found = list[Choice]()
        # By chunks only where nothing else keeps the budget: sums over rows are added up in another order.
        for program in self.programs:
            found = found or [each for each in self._tried(budget, program) if self.peak_of(each).bytes <= budget]
        best = min(found, key=lambda each: each.time, default=None) or self.least
        if self.peak_of(best).bytes > budget:
            least = self.peak_of(best).bytes
            raise UserError(
                f"a budget of {text_of(budget)} cannot be kept: this step needs {text_of(least, up=True)} ({least} bytes) at least, "
                f"{text_of(self.unlimited.bytes)} without a budget",
                location=OPTION,
                hint=f"give {text_of(least, up=True)} or more, or a smaller batch",
            )
        return self._outcome(budget, best)

    def _tried(self, budget: int, program: SavedProgram) -> Iterator[Choice]:
        """Choices around `budget` bytes. What a prediction does not tell of the plans is about the same for choices that are alike."""
        low, high = 0, self.usual.predicted  # targets for which the peak is too low, or too high
        target, seen = budget - (self.peak_of(self.usual).bytes - self.usual.predicted), set[Key]()
        for _ in range(ROUNDS):
            choice = self.predicted_within(target, program)
            if choice is None:
                return
            missing = self.peak_of(choice).bytes - budget
            yield choice
            if -CLOSE * budget <= missing <= 0 or choice.key in seen:
                return
            seen.add(choice.key)
            if missing > 0:
                high = min(target, choice.predicted)
            else:
                low = target
            target = min(target, choice.predicted) - missing - int(SLACK * budget)
            if not low < target < high:
                target = (low + high) // 2

    def _outcome(self, budget: int, choice: Choice) -> Outcome:
        return Outcome(budget, self.peak_of(choice), self.unlimited, choice, len(self.peaks))

    def predicted_within(self, target: int, program: SavedProgram) -> Choice | None:
        """The fastest choice whose predicted peak is at most `target`; else the one with the lowest that was found; None without any."""
        limit, found = target, list[Choice]()
        for _ in range(TRIES):
            nodes = program.within(limit)
            if nodes is None:
                break
            found.append(_choice_of(program, nodes))
            if found[-1].predicted <= target:
                break
            limit -= found[-1].predicted - target
        fitting = [choice for choice in found if choice.predicted <= target]
        return (
            min(fitting, key=lambda each: each.time)
            if fitting
            else min(found, key=lambda each: each.predicted, default=None)
        )

    @cached_property
    def least(self) -> Choice:
        """The choice with the lowest peak that is known."""
        found = [self.usual]
        for program in self.programs:
            # With more stages the program knows lives better, and proves less in the time that it has.
            for each in (program, SavedProgram(program.step, program.choice, 2 * STAGES)):
                nodes = each.least()
                found += [_choice_of(program, nodes)] if nodes is not None else []
        return min(found, key=lambda each: self.peak_of(each).bytes)

    def curve(self, points: int) -> list[tuple[Peak, Choice]]:
        """Up to `points` choices from the lowest peak to min-cut's, each faster than those with a lower peak."""
        low, high = self.least.predicted, self.usual.predicted
        between = list[Choice]()
        for k in range(1, points - 1):
            for program in self.programs:
                choice = self.predicted_within(low + (high - low) * k // (points - 1), program)
                between += [] if choice is None else [choice]
        found = {choice.key: choice for choice in (self.least, *between, self.usual)}.values()
        kept = list[tuple[Peak, Choice]]()
        for choice in sorted(found, key=lambda each: each.time):
            peak = self.peak_of(choice)
            if self.peak_of(self.least).bytes <= peak.bytes and (not kept or peak.bytes < kept[-1][0].bytes):
                kept.append((peak, choice))
        return kept[::-1]


def _choice_of(program: SavedProgram, values: Sequence[Node]) -> Choice:
    """`values`, and what costs nothing: what was given, and the sizes that the backward may need."""
    step = program.step
    given = [node for node in step.graph.nodes if node in step.given]
    return _choice(step, [*given, *values, *filter(is_number, step.forward)], program.choice)


def _marked(choice: Choice, pair: Pair) -> Pair:
    """The pair, told of the chunks."""
    for gm in pair if choice.chunks else ():
        gm.graph.output_node().meta[CHUNKED] = choice.chunks
    return pair


def _peak(choice: Choice, measured: int | None) -> Peak:
    return Peak(choice.predicted, exact=False) if measured is None else Peak(measured)


def _choice(step: Step, saved: Sequence[Node], usual: Sequence[Node]) -> Choice:
    """The choice of `saved`, where min-cut saves `usual`."""
    without = time_again(step, usual)
    time = 1.0 + (time_again(step, saved) - without) / max(1.0, step.least_time + without)
    return Choice(
        tuple(node.name for node in saved), peak(step, saved), number_again(step, saved), time, step.chunk_bytes
    )


@dataclass
class _Seen:
    """A split of PyTorch's partitioner: the graph, its nodes, sorted, and those that it saved."""

    graph: Graph | None = None
    info: Any = None
    nodes: tuple[Node, ...] = ()


@contextmanager
def _saving(names: Names | None) -> Iterator[_Seen]:
    """PyTorch's partitioner saves the values `names` meanwhile; None: what it would."""
    choose, seen = partitioners.choose_saved_values_set, _Seen()

    def chosen(graph: Graph, info: Any, memory_budget: float = 1) -> list[Node]:
        if names is None:
            found = choose(graph, info, memory_budget)
        else:
            nodes = {node.name: node for node in graph.nodes}
            found = [nodes[name] for name in names]
        seen.graph, seen.info, seen.nodes = graph, info, tuple(found)
        return found

    with patch.object(partitioners, "choose_saved_values_set", chosen):
        yield seen


def _copy(joint: GraphModule) -> GraphModule:
    graph, copies = Graph(), dict[Node, Node]()
    for node in joint.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    made = GraphModule(joint, graph)
    made.meta.update(joint.meta)
    return made


def text_of(count: int, *, up: bool = False) -> str:
    """Bytes as a user writes them, such as "5.25 GiB"; `up`: rounded up, so that what is written is enough."""
    unit = next((n for n in (3, 2, 1) if count >= 1 << (10 * n)), 0)
    if not unit:
        return f"{count} bytes"
    hundredths = -(-count * 100 >> (10 * unit)) if up else round(count * 100 / (1 << (10 * unit)))
    return f"{hundredths / 100:.2f} {('KiB', 'MiB', 'GiB')[unit - 1]}"
