"""Which values a training step saves and which it computes again, as an integer program: the least time within a budget of bytes.

The backward is cut into stages. Each value that it reads is saved, or computed again in a stage: held from there to its last reader, if it is
an operator that needs memory, else computed in each stage where it is read. What is computed again has operands that are there in that stage.
A value on the host is copied back during the stage before the one from which on it is held; what a copy takes longer than the forward, or that
stage, is time of the step.
After Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", with values for rows and these stages
for columns, each value computed again once at the most. Solved by HiGHS.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from time import perf_counter

from bascule.dialect.errors import UserError
from torch.fx import Node

from .host_copies import Link
from .predicted_peak import computed_again, live_bytes, tangents_of
from .training_step import Step, is_computed_again_for_sure, is_number, is_saved_for_sure

STAGES = 12  # of a backward, at most
GAP = 0.01  # of the time that is lost, at most, where the solver stops before it has proven the least
ELSEWHERE = 0.02  # of bytes that are not those of the peak, as part of it, where the fewest bytes are asked for
TIE = 1e-4  # of a value's bytes, as time: of two choices of one time the smaller


@dataclass
class _Rows:
    """Rows of a matrix in growing order: `lower <= sum(coefficient * variable) <= upper`."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, terms: Mapping[int, float], lower: float, upper: float = inf) -> None:
        self.columns += terms
        self.values += terms.values()
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass(eq=False)
class Value:
    """A root of the forward that the backward may need. `stages`: where the backward itself reads it; `last`: the last stage that may need it;
    `here`: stages where something reads it that needs it in memory."""

    node: Node
    reads: list[Node]
    size: int
    fuses: bool
    stages: set[int] = field(default_factory=set)
    here: set[int] = field(default_factory=set)
    last: int = 0

    @property
    def latest(self) -> int:
        """The last stage in which it may be computed again."""
        return min(self.stages) if self.stages and not self.fuses else self.last


@dataclass(frozen=True)
class Solution:
    """Values to save: as they are, in fewer bits, and on the host; `exposed`: part of the step's time for which nothing but copies is under
    way."""

    saved: tuple[Node, ...]
    lowered: tuple[Node, ...] = ()
    moved: tuple[Node, ...] = ()
    exposed: float = 0.0


class SavedProgram:
    """The choice for one step. `lowerable`: values that may be saved in half their bytes; `movable`: on the host, over `link`. Its time is what
    a choice takes beyond `usual`, one that saves what costs least time, as min-cut has it. Bytes are scaled by the peak where everything is
    saved, times by the step's: numbers near 1."""

    def __init__(
        self,
        step: Step,
        usual: Collection[Node],
        stages: int = STAGES,
        lowerable: Collection[Node] = frozenset(),
        movable: Collection[Node] = frozenset(),
        link: Link | None = None,
    ):
        self.step, self.lowerable = step, lowerable
        self.movable, self.link = movable, link
        self.choice = tuple(usual)
        self.usual = {step.root(node) for node in usual}
        self.usual_again = set(computed_again(step, usual))
        self.stages = stages
        self.values: dict[Node, Value] = {}
        self.count = 0  # of variables
        self.rows = _Rows()
        self._solved: dict[float | None, Solution | None] = {}
        self._collect()
        self._declare()

    # The values and the stages in which they are read

    def _collect(self) -> None:
        step, numbers = self.step, self.stage_of
        forward = set(step.forward)
        outputs = {step.root(node) for node in step.forward_outputs}
        found = set[Node]()
        todo = [read for node in step.backward for read in step.reads(node)]
        todo += [step.root(node) for node in step.backward_outputs]
        while todo:
            node = todo.pop()
            if node in forward and node not in found and not is_number(node):
                found.add(node)
                todo += step.reads(node)
        for node in step.forward:  # operands first
            if node in found:
                reads = [read for read in step.reads(node) if read in found]
                self.values[node] = Value(node, reads, 0 if node in outputs else step.size(node), step.fuses(node))
        for node in step.backward:
            if step.root(node) is node:
                for read in step.reads(node):
                    if read in self.values:
                        self.values[read].stages.add(numbers[node])
                        if not step.fuses(node):
                            self.values[read].here.add(numbers[node])
        for node in step.backward_outputs:
            if step.root(node) in self.values:
                self.values[step.root(node)].stages.add(self.stages)
        for value in reversed(self.values.values()):
            value.last = max([value.last, *value.stages])
            for read in value.reads:
                self.values[read].last = max(self.values[read].last, value.latest)

    @cached_property
    def stage_of(self) -> dict[Node, int]:
        """The stage, from 1 on, of each call of the backward. Each has about as many bytes of values that are first read in it."""
        step, seen = self.step, set[Node]()
        weights = []
        for node in step.backward:
            new = [] if step.root(node) is not node else [read for read in step.reads(node) if read not in seen]
            seen.update(new)
            weights.append(sum(step.size(read) for read in new if read.op == "call_function") + 1)
        whole, before, found = sum(weights), 0, {}
        for node, weight in zip(step.backward, weights):
            found[node] = 1 + min(self.stages - 1, before * self.stages // whole)
            before += weight
        return found

    @cached_property
    def others(self) -> list[int]:
        """Bytes beside the values, by stage, and at 0 at the forward's end: what is given, outputs, gradients, what a backward has under way."""
        step = self.step
        outputs = {step.root(node) for node in step.forward_outputs}
        entering = outputs | tangents_of(step)
        staying = outputs | {step.root(node) for node in step.backward_outputs}
        live = live_bytes(step, step.backward, entering, staying)
        found = [step.standing + sum(map(step.size, outputs)), *[step.standing] * self.stages]
        for node, count in zip(step.backward, live):
            stage = self.stage_of[node]
            found[stage] = max(found[stage], step.standing + count)
        return found

    # The variables and what holds of them

    def _declare(self) -> None:
        self.costs: list[float] = []
        self.most: list[float] = []
        self.integral: list[bool] = []
        self.saved: dict[Node, int] = {}
        self.lowered: dict[Node, int] = {}  # of those that may be
        self.there: dict[Node, list[int]] = {}  # by stage from 1 on: held, or computed where it is read
        self.again: dict[Node, list[int]] = {}  # by stage from 1 on: computed
        self.moved: dict[Node, int] = {}  # of those that may be
        self.back: dict[Node, list[int]] = {}  # by stage from 1 on: held since it was copied back
        self.copied: dict[Node, list[int]] = {}  # by stage from 1 on: it is there from then on
        self.exposed: list[int] = []  # by stage, 0 for the forward: part of the step's time with copies alone
        time = max(1.0, self.step.least_time)
        for node, value in self.values.items():
            may_save = bool(value.size or self.step.size(node)) and not is_computed_again_for_sure(node)
            may_save &= node not in self.step.chunked
            may_compute = not is_saved_for_sure(node)
            moved = 0.0 if node in self.usual else (2.0 if value.fuses else 1.0) * value.size
            self.saved[node] = self._variable(may_save, (moved + TIE * self.step.size(node)) / time, integral=True)
            if (
                node in self.lowerable and value.size and value.stages
            ):  # its bytes are moved once more, half of them twice
                self.lowered[node] = self._variable(True, (1 + TIE) * value.size / time, integral=True)
            if node in self.movable and value.size and value.last:
                self.moved[node] = self._variable(True, TIE * value.size / time, integral=True)
                self.back[node] = [self._variable(True, 0.0) for _ in range(value.last)]
                self.copied[node] = [self._variable(True, 0.0) for _ in range(value.last)]
            span, cost = range(value.last), 0.0 if node in self.usual_again else self.step.time(node) / time
            if value.fuses:
                self.there[node] = [self._variable(may_compute, cost, integral=True) for _ in span]
                self.again[node] = self.there[node]
            else:
                self.there[node] = [self._variable(True, 0.0) for _ in span]
                self.again[node] = [self._variable(may_compute and k < value.latest, cost, integral=True) for k in span]
        self.peak = self._variable(True, 0.0, most=inf)
        for value in self.values.values():
            self._constrain(value)
        if self.moved:
            self._constrain_copies()
        self.memory = [self._memory(stage) for stage in range(self.stages + 1)]

    def _variable(self, allowed: bool, cost: float, *, integral: bool = False, most: float = 1.0) -> int:
        self.costs.append(cost)
        self.most.append(most if allowed else 0.0)
        self.integral.append(integral)
        self.count += 1
        return self.count - 1

    def _available(self, value: Value, stage: int) -> dict[int, float]:
        """The variables whose sum says that `value` is there in `stage`."""
        there = {self.there[value.node][stage - 1]: 1.0}
        if value.node in self.back:
            there[self.back[value.node][stage - 1]] = 1.0
        return there | {self.saved[value.node]: 1.0} if value.fuses else there

    def _constrain(self, value: Value) -> None:
        node, rows = value.node, self.rows
        saved, there, again = self.saved[node], self.there[node], self.again[node]
        low = {self.lowered[node]: 1.0} if node in self.lowered else {}
        for stage in value.stages:
            rows.add(self._available(value, stage) | low, 1.0)
        if not value.fuses:
            for k, here in enumerate(there):
                rows.add({here: -1.0, there[k - 1] if k else saved: 1.0, again[k]: 1.0}, 0.0)
            if again:
                rows.add({saved: 1.0, **dict.fromkeys(again, 1.0)}, 0.0, 1.0)
        for stage in range(1, value.latest + 1):
            for read in value.reads:
                rows.add({again[stage - 1]: -1.0, **self._available(self.values[read], stage)}, 0.0)

    def _constrain_copies(self) -> None:
        """Values come back that were moved, once, and copies take what they take of the time of each stage."""
        assert self.link is not None
        link, step, stages = self.link, self.step, self.stage_of
        times = [sum(link.step_time(step, node) for node in step.forward), *[0.0] * self.stages]
        for node in step.backward:
            times[stages[node]] += link.step_time(step, node)
        whole = max(1.0, sum(times))
        self.exposed = [self._variable(True, 1.0, most=inf) for _ in range(self.stages + 1)]
        loads: list[dict[int, float]] = [{exposed: -1.0} for exposed in self.exposed]
        for node, moved in self.moved.items():
            taken = link.copy(self.values[node].size) / whole
            loads[0][moved] = taken
            for k, (here, copied) in enumerate(zip(self.back[node], self.copied[node])):
                loads[1 + k][copied] = taken
                self.rows.add({here: -1.0, copied: 1.0} | ({self.back[node][k - 1]: 1.0} if k else {}), 0.0)
            self.rows.add({moved: 1.0, **dict.fromkeys(self.copied[node], -1.0)}, 0.0)
            self.rows.add({moved: 1.0, self.saved[node]: 1.0}, 0.0, 1.0)
        for stage, load in enumerate(loads):  # beside the forward, nothing, and the stage before
            beside = times[0] if stage == 0 else 0.0 if stage == 1 else times[stage - 1]
            self.rows.add(load, -inf, beside / whole)

    def _memory(self, stage: int) -> dict[int, float]:
        """The bytes of values in `stage`, 0 for the forward's end: coefficients by variable."""
        terms: dict[int, float] = {}
        for node, value in self.values.items():
            if not value.size or stage > value.last:
                continue
            if stage == 0 or value.fuses:
                terms[self.saved[node]] = float(value.size)
            if stage and (not value.fuses or stage in value.here):
                terms[self.there[node][stage - 1]] = float(value.size)
            if node in self.lowered and stage <= max(
                value.stages
            ):  # with a copy of all its bits for who reads it in memory
                terms[self.lowered[node]] = value.size * (1.5 if stage in value.here else 0.5)
            if node in self.back and stage:
                terms[self.back[node][stage - 1]] = float(value.size)
                if stage < value.last:  # and already while it is copied
                    terms[self.copied[node][stage]] = float(value.size)
        return terms

    # Solutions

    def within(self, budget: float, seconds: float) -> Solution | None:
        """Choice of the least time with at most `budget` bytes at any time; None where no choice was found."""
        return self._solve(budget, seconds)

    def least(self, seconds: float) -> Solution | None:
        """Choice of the fewest bytes."""
        return self._solve(None, seconds)

    def _solve(self, budget: float | None, seconds: float) -> Solution | None:
        """The solution for a budget, or that of the fewest bytes; the same again, unless the solver's time was over."""
        if budget in self._solved:
            return self._solved[budget]
        begun = perf_counter()
        found = self._solved_anew(budget, seconds)
        if perf_counter() - begun < seconds:
            self._solved[budget] = found
        return found

    def _solved_anew(self, budget: float | None, seconds: float) -> Solution | None:
        unit = float(max(1, max(self.others) + sum(value.size for value in self.values.values())))
        rows = _Rows(*(list(part) for part in vars(self.rows).values()))
        for terms, other in zip(self.memory, self.others):
            scaled = {column: size / unit for column, size in terms.items()}
            if budget is None:
                rows.add({**scaled, self.peak: -1.0}, -inf, -other / unit)
            else:
                rows.add(scaled, -inf, (budget - other) / unit)
        costs = self.costs
        if (
            budget is None
        ):  # of two choices of one peak what has less at other times, where plans may see the peak; then the faster
            costs = [1e-3 * cost for cost in costs]
            costs[self.peak] = 1.0
            for terms in self.memory:
                for column, size in terms.items():
                    costs[column] += ELSEWHERE * size / (unit * len(self.memory))
        found = solve(costs, self.most, self.integral, rows, seconds)
        if found is None:
            return None
        saved, lowered, moved = (
            tuple(node for node, column in columns.items() if found[column] > 0.5)
            for columns in (self.saved, self.lowered, self.moved)
        )
        lowered = tuple(node for node in lowered if node not in saved)
        return Solution(saved, lowered, moved, sum(found[column] for column in self.exposed))


def solve(
    costs: Sequence[float], most: Sequence[float], integral: Sequence[bool], rows: _Rows, seconds: float
) -> Sequence[float] | None:
    """Values of variables from 0 to `most` that keep `rows` and have the least sum of `costs`, or within `GAP` of it, or the best in `seconds`;
    None if there are none, or none was found. Raises `UserError` where SciPy, which brings HiGHS, is not installed."""
    try:
        import numpy
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError as error:
        told = f"needs the solver that SciPy brings: {error}"
        raise UserError(told, location="option 'memory_budget'", hint="pip install 'bascule[memory]'") from None
    matrix = csr_array((rows.values, rows.columns, rows.starts), shape=(len(rows.lower), len(costs)))
    found = milp(
        numpy.array(costs),
        constraints=LinearConstraint(matrix, rows.lower, rows.upper),
        integrality=numpy.array(integral, dtype=int),
        bounds=Bounds(0.0, numpy.array(most)),
        options={"time_limit": seconds, "mip_rel_gap": GAP},
    )
    return None if found.x is None else list(found.x)
