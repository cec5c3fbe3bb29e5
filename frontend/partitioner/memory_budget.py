"""A training step within a budget of bytes: what is saved is chosen so that the predicted peak keeps it, in the least time.

Min-cut's choice stays where it keeps the budget. Else an integer program (`saved_program.py`) chooses, of all that the forward computes; where
the predicted peak (`live_bytes.py`) of its choice is too high yet, as much less may be saved among what lives there, and it chooses again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy
from torch.utils.flop_counter import flop_registry

from bascule.compat.graphs.partitioners import partitioners
from bascule.compat.operators.schemas import OpOverload

from ..fx.operator_effects import is_seen_outside
from .live_bytes import Peak, Step
from .saved_program import Limit, Program, saved

ROUNDS = 12  # choices, at most
SLACK = 0.002  # of the budget, by which a choice that is still too high is asked to be lower than it need be
FLOPS_A_BYTE = 50.0  # that a machine computes while it moves a byte: between a CPU's 20 and an H200's 200
GIB = 1 << 30


class BudgetError(Exception):
    """A budget that no choice keeps. `least`: bytes of the least peak found."""

    def __init__(self, budget: int, least: Peak, most: int):
        self.budget, self.least, self.most = budget, least, most
        super().__init__(
            f"a memory budget of {_text(budget)} cannot be kept: this step needs {_text(least.bytes)} at least, {_text(most)} without a budget"
        )


@dataclass
class Budget:
    """`limit`: bytes, or a part of the peak that min-cut's choice has. `told`: what became of each step it was for."""

    limit: int | float
    told: list["Outcome"] = field(default_factory=list)

    def bytes(self, peak: int) -> int:
        return self.limit if isinstance(self.limit, int) else int(self.limit * peak)


@dataclass(frozen=True)
class Outcome:
    """Predicted bytes of one step: its budget, the peak that was chosen, that of min-cut's choice; and nodes that are computed again."""

    budget: int
    peak: int
    unlimited: int
    again: int


@contextmanager
def kept_within(budget: Budget) -> Iterator[None]:
    """What PyTorch's partitioner saves meanwhile keeps `budget`. Raises `BudgetError` where nothing does."""
    choose = partitioners.choose_saved_values_set

    def chosen(graph: Graph, info: Any, memory_budget: float = 1) -> list[Node]:
        usual = choose(graph, info, memory_budget)
        step = step_of(graph, info)
        return list(_within(step, usual, budget))

    with patch.object(partitioners, "choose_saved_values_set", chosen):
        yield


def step_of(graph: Graph, info: Any) -> Step:
    """The step that a joint graph is, as PyTorch's partitioner has sorted its nodes (`NodeInfo`)."""
    types, outputs = partitioners.get_default_op_list(), graph.output_node().all_input_nodes
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return Step(
        graph,
        tuple(filter(info.is_required_fw, calls)),
        tuple(filter(info.is_required_bw, calls)),
        frozenset(info.inputs),
        frozenset(filter(info.is_required_fw, outputs)),
        frozenset(filter(info.is_required_bw, outputs)),
        lambda node: types.is_fusible(node) or types.is_view(node),
    )


def _within(step: Step, usual: Sequence[Node], budget: Budget) -> Sequence[Node]:
    unlimited = step.peak(usual)
    most = budget.bytes(unlimited.bytes)
    choice, peak = usual, unlimited
    if unlimited.bytes > most:
        choice, peak = _chosen(step, most)
        if peak.bytes > most:
            raise BudgetError(most, peak, unlimited.bytes)
    again = sum(1 for _ in step.computed_again(choice)) - len(step.backward)
    budget.told.append(Outcome(most, peak.bytes, unlimited.bytes, again))
    return choice


def _chosen(step: Step, most: int) -> tuple[list[Node], Peak]:
    """Values to save whose peak is `most` bytes at the most, or the least that was found."""
    program, limits = program_of(step), list[Limit]()
    best: tuple[list[Node], Peak] | None = None
    for _ in range(ROUNDS):
        found = saved(program, limits)
        if found is None:
            break
        choice = _with_symbols(step, found)
        peak = step.peak(choice)
        if best is None or peak.bytes < best[1].bytes:
            best = choice, peak
        if peak.bytes <= most:
            return choice, peak
        here = {step.root(node): step.size(node) for node in found} if peak.at is None else {}
        live = here or {node: step.size(node) for node in peak.live if node in program.values}
        now = sum(step.size(node) for node in found if step.root(node) in live)
        limits.append(Limit(live, max(0, now - (peak.bytes - most) - int(SLACK * most))))
    least = _with_symbols(step, [])
    return min([best or (least, step.peak(least)), (least, step.peak(least))], key=lambda each: each[1].bytes)


def _with_symbols(step: Step, values: Sequence[Node]) -> list[Node]:
    """`values`, and what costs nothing: what was given, and sizes that the backward needs."""
    sizes = [node for node in step.forward if isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)]
    return [*sorted(step.given, key=lambda node: node.name), *values, *sizes]


def program_of(step: Step) -> Program:
    """The integer program of what `step` saves. Times are in bytes moved."""
    region = set(step.graph.nodes) - set(step.backward) - step.given
    needed, todo = set[Node](), list(step.backward)
    values = set[Node]()
    while todo:
        node = todo.pop()
        for operand in node.all_input_nodes:
            if operand in region and operand.op == "call_function":
                if node in step.backward:
                    needed.add(operand)
                if operand not in values:
                    values.add(operand)
                    todo.append(operand)
    ordered = [node for node in step.graph.nodes if node in values]

    def saving(node: Node) -> float | None:
        if step.root(node) is not node or isinstance(node.meta.get("val"), list | tuple):
            return None  # its root is saved, or its parts are
        return 2.0 * step.size(node)

    def again(node: Node) -> float | None:
        return None if _is_made_once(node) else _time(step, node)

    return Program(ordered, frozenset(needed), lambda node: [o for o in node.all_input_nodes if o in values], saving, again)


def _is_made_once(node: Node) -> bool:
    """Whether a value may not be computed again: others see that it is, or it would be another."""
    if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE:
        return True
    target = node.target
    return isinstance(target, OpOverload) and (
        is_seen_outside(target) or target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags
    )


def _time(step: Step, node: Node) -> float:
    """About how long a node takes, in bytes that are moved meanwhile."""
    if step.root(node) is not node:
        return 0.0
    packet = getattr(node.target, "overloadpacket", None)
    moved = step.size(node) if step.fuses(node) else step.size(node) + sum(map(step.size, node.all_input_nodes))
    if packet not in flop_registry:
        return float(moved)
    arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    flops = flop_registry[packet](*arguments, **keywords, out_val=node.meta["val"])
    return float(moved) + float(flops) / FLOPS_A_BYTE


def _text(count: int) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / (1 << 20):.1f} MiB"
