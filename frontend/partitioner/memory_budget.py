"""A training step within a budget of bytes: what is saved is chosen so that the peak keeps it, in the least time.

Min-cut's choice stays where it keeps the budget. Else an integer program chooses (`saved_program.py`); the forward and the backward that come of
its choice are compiled as far as their memory plans, which tell the peak; where that is too high, the program is asked for as much less.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from bascule.dialect.errors import UserError
from torch.fx import GraphModule, Node

from ..fx.graph_ends import AS_WITHOUT, CHUNKED, GIVEN_BYTES, inputs_of
from .checkpoint_cuts import checkpoints
from .chunked_rows import by_chunks
from .host_copies import Link, keep_on_host, movable
from .joint_splits import Names, Pair, Splits, copied
from .lowered_values import SUFFIX, lowerable, lowered_step
from .predicted_peak import number_again, peak, time_again
from .saved_program import STAGES, SavedProgram, Solution
from .training_step import Step, is_number, tensor_bytes

ROUNDS = 6  # choices that are compiled for one budget, at most
SECONDS = 5.0  # of the solver, at most, for all choices of a step within a budget; as many for each of the least bytes
FINER_SECONDS = 1.0  # of the solver, at most, for the fewest bytes of each program with more stages, where a budget is far from possible
ONE_SECONDS = 0.5  # that a choice may take when those are over
TRIES = 3  # solutions of the program for one choice, at most
CLOSE = 0.03  # of the budget: a choice whose peak is no lower is good enough
SLACK = 0.002  # of the budget, by which a choice that is too high yet is asked to be lower than it need be
FAR = 0.1  # of the budget: what is known, or predicted, to be as much higher is not compiled to be sure
HOPELESS = 2.0  # times the budget: a least that is predicted to be as high is so by plans too
UNSURE = 0.01  # of the budget, by which a first choice is asked to be lower where no plan has told how far predictions are off
OPTION = "option 'memory_budget'"

Key = tuple[Names, Names, int, Names, bool]


class HasBytes(Protocol):
    """The plans of a step."""

    @property
    def bytes(self) -> int: ...

    @property
    def how(self) -> str: ...

    @property
    def copies(self) -> str:
        """Bytes and predicted time of the copies to the host and back."""


Plans = TypeVar("Plans", bound=HasBytes)


@dataclass(frozen=True)
class Peak(Generic[Plans]):
    """`bytes` that a step holds at most: as the plans of its programs `measured` it, else as predicted by its joint graph."""

    bytes: int
    measured: Plans | None = None

    @property
    def exact(self) -> bool:
        return self.measured is not None


@dataclass(frozen=True)
class Choice:
    """Values that a forward saves, by name. `again`: calls that the backward makes again; `time`: of the step, predicted, as a multiple of that
    of min-cut's choice. `chunks`: the bytes from which on tensors are made by chunks of rows; 0: all are whole. `lowered`: values that it saves
    in fewer bits. `moved`: those of `names` that are on the host meanwhile. `as_without`: the passes are those without a budget."""

    names: Names
    predicted: int  # bytes, by the joint graph
    again: int
    time: float
    chunks: int = 0
    lowered: Names = ()
    moved: Names = ()
    as_without: bool = False

    @property
    def key(self) -> "Key":
        return self.names, self.lowered, self.chunks, self.moved, self.as_without


@dataclass(frozen=True)
class Outcome(Generic[Plans]):
    """The end of a search: the `budget` in bytes, the peak of the step, and that without a budget, where it had to be known."""

    budget: int
    peak: Peak[Plans]
    unlimited: Peak[Plans] | None
    choice: Choice
    rounds: int  # choices that were compiled
    precision: str | None = None

    def __str__(self) -> str:
        how = "predicted: it is compiled in parts" if self.peak.measured is None else self.peak.measured.how
        chunks = ", the largest product by chunks of its rows" if self.choice.chunks else ""
        again = f"{self.choice.again} {'call' if self.choice.again == 1 else 'calls'} computed again in the backward{chunks}"
        if self.choice.lowered:
            count = len(self.choice.lowered)
            again += f", {count} saved {'value' if count == 1 else 'values'} kept in {self.precision}"
        if self.choice.moved:
            count = len(self.choice.moved)
            again += f", {count} saved {'value' if count == 1 else 'values'} on the host"
            again += "" if self.peak.measured is None else f" ({self.peak.measured.copies})"
        without = "" if self.unlimited is None else f", {text_of(self.unlimited.bytes)} without one"
        return (
            f"a peak of {text_of(self.peak.bytes)} ({how}) within a budget of {text_of(self.budget)}{without}; {again}, "
            f"{self.choice.time:.2f} times the time without a budget (predicted); {self.rounds} choices compiled"
        )


# The plans of the two graphs of a choice; None where they tell none: they are compiled in parts.
Measure = Callable[[GraphModule, GraphModule], Plans | None]


@dataclass
class Search(Generic[Plans]):
    """The choices for one joint graph, each compiled once. `measure`: of graphs as compiled with a budget; `measure_without`: without one."""

    splits: Splits
    measure: Measure[Plans]
    measure_without: Measure[Plans]
    peaks: dict[Key, Peak[Plans]] = field(default_factory=dict)
    seconds: float = SECONDS  # that the solver has left
    precision: str | None = None  # in which values may be saved: see `lowered_values.py`
    link: Link | None = None  # by which values may be moved to the host: see `host_copies.py`
    _cuts: dict[tuple[Step, tuple[Node, ...]], list[Choice]] = field(default_factory=dict, init=False)
    _with_more_stages: dict[SavedProgram, SavedProgram] = field(default_factory=dict, init=False)

    def pair(self, choice: Choice) -> Pair:
        """Forward and backward of a choice."""
        if choice is self.usual:
            return self.splits.usual
        if choice is self.without:
            return _marked(self.splits.usual, AS_WITHOUT, True)
        pair = self.splits.saving(choice.names, choice.lowered, self.precision or "")
        # By which libraries of products are chosen: those of a step without a budget, for the same bits.
        given = sum(tensor_bytes(node.meta["val"]) for node in inputs_of(self.splits.usual[1].graph))
        pair[1].graph.output_node().meta[GIVEN_BYTES] = given
        if choice.moved:  # that of the same values on the device is another
            pair = copied(pair)
            keep_on_host(pair, choice.moved)
        return _marked(pair, CHUNKED, choice.chunks) if choice.chunks else pair

    @cached_property
    def usual(self) -> Choice:
        """Min-cut's choice, on the graph as it is."""
        if self.splits.usually_saved is None:
            return Choice((), 0, 0, 1.0)
        step, nodes = self.splits.usually_saved
        return _choice(step, nodes, nodes)

    @cached_property
    def without(self) -> Choice:
        """Min-cut's choice, compiled as without a budget: mostly the passes with one leave less at the peak, not always."""
        return replace(self.usual, as_without=True)

    @cached_property
    def programs(self) -> list[SavedProgram]:
        """The integer programs of the choices; none where nothing is differentiated: there is no backward to save for."""
        if self.splits.prepared is None:
            return []
        step, nodes = self.splits.prepared
        steps = [each for each in (step, by_chunks(step, self.usual.predicted)) if each is not None]
        # Without the host too: plans tell little differences that predictions do not.
        links = [None] if self.link is None else [self.link, None]
        return [self._program(each, nodes, link) for each in steps for link in links]

    def _program(
        self, step: Step, usual: Sequence[Node], link: Link | None = None, stages: int = STAGES
    ) -> SavedProgram:
        low = lowerable(step) if self.precision else frozenset[Node]()
        return SavedProgram(step, usual, stages, low, movable(step) if link else frozenset[Node](), link)

    def peak_of(self, choice: Choice) -> Peak[Plans]:
        """The peak of a choice, by the programs that come of it."""
        if choice.key not in self.peaks:
            measure = self.measure_without if choice.as_without else self.measure
            self.peaks[choice.key] = _peak(choice, measure(*copied(self.pair(choice))))
        return self.peaks[choice.key]

    @property
    def unlimited(self) -> Peak[Plans]:
        """The peak without a budget."""
        return self.peak_of(self.without)

    @property
    def known_unlimited(self) -> Peak[Plans] | None:
        """The peak without a budget, if it is known."""
        return self.peaks.get(self.without.key)

    @property
    def usual_peak(self) -> Peak[Plans]:
        """The peak of min-cut's choice, or that without a budget, or what is predicted: the first of them that is known."""
        return self.peaks.get(self.usual.key) or self.known_unlimited or Peak(self.usual.predicted)

    # Choices within a number of bytes

    def within(self, limit: int | float) -> Outcome[Plans]:
        """The step with at most `limit` bytes, or that part of the peak without a budget. Raises `UserError` where that is not possible."""
        budget = limit if isinstance(limit, int) else int(limit * self.unlimited.bytes)
        for choice in (self.usual, self.without):
            if self.usual_peak.bytes <= (1 + FAR) * budget and self.peak_of(choice).bytes <= budget:
                return self._outcome(budget, choice)
        found = list[Choice]()
        # By chunks only where nothing else keeps the budget: sums over rows are added up in another order.
        for program in self.programs:
            found = found or [each for each in self._tried(budget, program) if self.peak_of(each).bytes <= budget]
        best = min(found, key=lambda each: each.time, default=None) or self._least_for(budget)
        if self.peak_of(best).bytes > budget:
            least, usual = self.peak_of(best).bytes, self.usual_peak
            raise UserError(
                f"a budget of {text_of(budget)} cannot be kept: this step needs {text_of(least, up=True)} ({least} bytes) at least, "
                f"{'' if usual.exact else 'about '}{text_of(usual.bytes)} without a budget",
                location=OPTION,
                hint=f"give {text_of(least, up=True)} or more, or a smaller batch",
            )
        return self._outcome(budget, best)

    def _tried(self, budget: int, program: SavedProgram) -> Iterator[Choice]:
        """Choices around `budget` bytes. What a prediction does not tell of the plans is about the same for choices that are alike."""
        low, high = 0, self.usual.predicted  # targets for which the peak is too low, or too high
        usual, seen = self.usual_peak, set[Key]()
        # By what plans have more than is predicted.
        beyond = usual.bytes - self.usual.predicted if usual.exact else None
        target = budget - (int(UNSURE * budget) if beyond is None else beyond)
        for _ in range(ROUNDS):
            choice = self.predicted_within(target, program)
            if choice is None or choice.predicted + min(0, beyond or 0) > (1 + FAR) * budget:
                fewest = self._coarsest(program)
                if beyond is not None or fewest is None or fewest.predicted > HOPELESS * budget:
                    return
                beyond = self.peak_of(fewest).bytes - fewest.predicted
                if beyond >= 0:
                    return
                target = budget - beyond
                continue
            missing = self.peak_of(choice).bytes - budget
            yield choice
            lowest = missing > 0 and choice.predicted > target  # that is known: a smaller target finds no other
            close = missing <= 0 and (missing >= -CLOSE * budget or self.seconds < SECONDS / 2)
            if close or lowest or choice.key in seen:
                return
            seen.add(choice.key)
            if missing > 0:
                high = min(target, choice.predicted)
            else:
                low = target
            target = min(target, choice.predicted) - missing - int(SLACK * budget)
            if not low < target < high:
                target = (low + high) // 2

    def _outcome(self, budget: int, choice: Choice) -> Outcome[Plans]:
        return Outcome(budget, self.peak_of(choice), self.known_unlimited, choice, len(self.peaks), self.precision)

    def predicted_within(self, target: int, program: SavedProgram) -> Choice | None:
        """The fastest choice whose predicted peak is at most `target`; else the one with the lowest that was found; None without any."""
        limit, found = target, [each for each in self._checkpoints(program) if each.predicted <= target]
        for _ in range(TRIES):
            begun = perf_counter()
            solution = program.within(limit, max(ONE_SECONDS, self.seconds / 2))
            self.seconds -= perf_counter() - begun
            if solution is None:
                break
            found.append(self._choice_of(program, solution))
            if found[-1].predicted <= target:
                break
            limit -= found[-1].predicted - target
        fitting = [choice for choice in found if choice.predicted <= target]
        return (
            min(fitting, key=lambda each: each.time)
            if fitting
            else min(found, key=lambda each: each.predicted, default=None)
        )

    def _choice_of(self, program: SavedProgram, solution: Solution) -> Choice:
        """A solution, and what costs nothing: what was given, and the sizes that the backward may need."""
        step, lowered = program.step, tuple(node.name for node in solution.lowered)
        given = [node for node in step.graph.nodes if node in step.given]
        saved = [*given, *solution.saved, *solution.moved, *filter(is_number, step.forward)]
        names = tuple(node.name for node in solution.moved)

        def made(step: Step, saved: Sequence[Node], usual: Sequence[Node]) -> Choice:
            choice = _choice(step, saved, usual, [node for node in saved if node.name in names])
            return replace(choice, time=choice.time + solution.exposed, moved=names)

        if not lowered or self.precision is None:
            return made(step, saved, program.choice)
        step = lowered_step(step, lowered, self.precision)
        nodes = {node.name: node for node in step.graph.nodes}
        low = [nodes[f"{name}{SUFFIX}"] for name in lowered]
        choice = made(
            step, [*(nodes[node.name] for node in saved), *low], [nodes[node.name] for node in program.choice]
        )
        return replace(choice, names=choice.names[: len(saved)], again=choice.again - len(lowered), lowered=lowered)

    @cached_property
    def least(self) -> Choice:
        """The choice with the lowest peak that is known. Those for budgets below that of the solver's may have less: plans tell what predictions
        do not."""
        best = self._least(SECONDS)
        for program in self.programs:
            while self.peak_of(best).exact:
                budget = int((1 - CLOSE) * self.peak_of(best).bytes)
                lower = min(self._tried(budget, program), key=lambda each: self.peak_of(each).bytes, default=best)
                if self.peak_of(lower).bytes >= self.peak_of(best).bytes:
                    break
                best = lower
        return best

    def _least_for(self, budget: int) -> Choice:
        """A choice with about the lowest peak: found quickly, where that is far over `budget`."""
        quick = self._least(FINER_SECONDS)
        far = self.peak_of(quick).bytes > (1 + FAR) * budget
        return quick if far else min(quick, self.least, key=lambda each: self.peak_of(each).bytes)

    @cached_property
    def _coarse(self) -> list[tuple[Choice, SavedProgram]]:
        """The choice of the fewest bytes of each program that the solver finds, or cuts."""
        found = list[tuple[Choice, SavedProgram]]()
        for each in self.programs:
            solution = each.least(SECONDS)
            known = [] if solution is None else [self._choice_of(each, solution)]
            known += self._checkpoints(each)
            if known:
                found.append((min(known, key=lambda choice: choice.predicted), each))
        return found

    def _finer(self, program: SavedProgram) -> SavedProgram:
        """`program` with more stages: it knows lives better, and proves less in the time that it has."""
        if program not in self._with_more_stages:
            more = self._program(program.step, program.choice, program.link, 2 * STAGES)
            self._with_more_stages[program] = more
        return self._with_more_stages[program]

    def _coarsest(self, program: SavedProgram) -> Choice | None:
        return next((choice for choice, each in self._coarse if each is program), None)

    def _checkpoints(self, program: SavedProgram) -> list[Choice]:
        """The choices that need no solver, of the step of `program`."""
        key = (program.step, program.choice)
        if key not in self._cuts:
            self._cuts[key] = [self._choice_of(program, Solution(saved)) for saved in checkpoints(program.step)]
        return self._cuts[key]

    def _least(self, seconds: float) -> Choice:
        found = list[Choice]()
        for choice, program in self._coarse:
            finer = self._finer(program)
            solution = finer.least(seconds)
            known = [choice] if solution is None else [choice, self._choice_of(finer, solution)]
            # A plan takes as long as in a compile: choices of one program, alike, are told apart by what is predicted.
            found.append(min(known, key=lambda each: each.predicted))
        # Of a small step what is computed again holds more than it saves: plans tell, predictions may be off by half. All are planned, whatever
        # is known before, so that a part and bytes have one least.
        return min([*found, self.usual, self.without], key=lambda each: self.peak_of(each).bytes)

    def curve(self, points: int) -> list[tuple[Peak[Plans], Choice]]:
        """Up to `points` choices from the lowest peak to min-cut's, each faster than those with a lower peak."""
        low, high = self.least.predicted, self.usual.predicted
        between = list[Choice]()
        for k in range(1, points - 1):
            for program in self.programs:
                choice = self.predicted_within(low + (high - low) * k // (points - 1), program)
                between += [] if choice is None else [choice]
        found = {choice.key: choice for choice in (self.least, *between, self.usual)}.values()
        kept = list[tuple[Peak[Plans], Choice]]()
        for choice in sorted(found, key=lambda each: each.time):
            peak = self.peak_of(choice)
            if self.peak_of(self.least).bytes <= peak.bytes and (not kept or peak.bytes < kept[-1][0].bytes):
                kept.append((peak, choice))
        return kept[::-1]


def _marked(pair: Pair, name: str, value: int) -> Pair:
    """A copy of `pair` with metadata of both outputs."""
    pair = copied(pair)
    for gm in pair:
        gm.graph.output_node().meta[name] = value
    return pair


def _peak(choice: Choice, measured: Plans | None) -> Peak[Plans]:
    return Peak(choice.predicted if measured is None else measured.bytes, measured)


def _choice(step: Step, saved: Sequence[Node], usual: Sequence[Node], moved: Sequence[Node] = ()) -> Choice:
    """The choice of `saved`, of these `moved` to the host, where min-cut saves `usual`."""
    without = time_again(step, usual)
    time = 1.0 + (time_again(step, saved) - without) / max(1.0, step.least_time + without)
    return Choice(
        tuple(node.name for node in saved), peak(step, saved, moved), number_again(step, saved), time, step.chunk_bytes
    )


def text_of(count: int, *, up: bool = False) -> str:
    """Bytes as a user writes them, such as "5.25 GiB"; `up`: rounded up, so that what is written is enough."""
    unit = next((n for n in (3, 2, 1) if count >= 1 << (10 * n)), 0)
    if not unit:
        return f"{count} bytes"
    hundredths = -(-count * 100 >> (10 * unit)) if up else round(count * 100 / (1 << (10 * unit)))
    return f"{hundredths / 100:.2f} {('KiB', 'MiB', 'GiB')[unit - 1]}"
