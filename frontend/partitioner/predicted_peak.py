"""The bytes that a training step holds at its peak, predicted on its joint graph for a set of saved values.

What the backward computes again it computes right before its first reader, once. A value that only operators read that compute where they
read, and few of them, is part of their kernels and has no memory. The programs that come of a choice tell better (`bascule/budget/`), but
not as quickly.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

import torch
from torch.fx import Node

from .training_step import Step

INLINED = 2  # readers of a value that compute it each for themselves, at most


def peak(step: Step, saved: Collection[Node], moved: Collection[Node] = ()) -> int:
    """The peak of `step` where its forward leaves `saved` to the backward, in bytes, what is given counted. `moved`: those of them that are on
    the host meanwhile, until they are first read."""
    kept = {step.root(node) for node in saved} - step.given - {*moved}
    outputs = {step.root(node) for node in step.forward_outputs}
    forward = live_bytes(step, results_early(step, step.forward_of(saved), kept | outputs), set(), kept | outputs)
    order = tuple(computed_again(step, saved))
    ends = {step.root(node) for node in step.backward_outputs}
    backward = live_bytes(step, order, kept | outputs | tangents_of(step), ends | outputs, {*moved})
    return step.standing + max([0, *forward, *backward])


def tangents_of(step: Step) -> set[Node]:
    """The gradients that a backward is given. Beside that of a loss a GPU has none: see `nullable-tangents`."""
    found = [node for node in step.graph.nodes if node.op == "placeholder" and node not in step.given]
    values = {node: node.meta.get("val") for node in found}
    tensors = {node: value for node, value in values.items() if isinstance(value, torch.Tensor)}
    if not any(value.dim() == 0 for value in tensors.values()):
        return set(found)
    return {node for node in found if node not in tensors or tensors[node].dim() == 0 or not tensors[node].is_cuda}


def number_again(step: Step, saved: Collection[Node]) -> int:
    """How many calls, but for views, the backward makes that the forward has made."""
    forward = set(step.forward)
    return sum(node in forward and step.root(node) is node for node in computed_again(step, saved))


def time_again(step: Step, saved: Collection[Node]) -> float:
    """About how long these take, in the unit of `Step.time`."""
    forward = set(step.forward)
    return sum(step.time(node) for node in computed_again(step, saved) if node in forward)


def computed_again(step: Step, saved: Collection[Node]) -> Iterator[Node]:
    """The calls of the backward with those that it makes again, each right before the first that reads it."""
    have = {*saved, *step.given}
    done = set[Node]()
    for node in step.backward:
        todo = [] if node in done else [(node, iter(node.all_input_nodes))]
        while todo:
            current, operands = todo[-1]
            needed = next((n for n in operands if n.op == "call_function" and n not in done and n not in have), None)
            if needed is not None:
                todo.append((needed, iter(needed.all_input_nodes)))
                continue
            todo.pop()
            if current not in done:
                done.add(current)
                yield current


def results_early(step: Step, order: Sequence[Node], staying: Collection[Node]) -> list[Node]:
    """`order`, where what is computed for values of `staying` alone, and computes where it reads, comes right after what it reads, which it then
    does not keep alive: kernels have it there, though a joint graph has what a backward alone reads at the forward's end."""
    early, number = set[Node](), dict[Node, float]()
    inside = set(order)
    for node in reversed(order):
        users = [user for user in node.users if user in inside]
        if step.fuses(node) and (step.root(node) in staying or users) and early.issuperset(users):
            early.add(node)
    for own, node in enumerate(order):
        number[node] = (
            max((number.get(each, -1) for each in node.all_input_nodes), default=-1) if node in early else own
        )
    return sorted(order, key=number.__getitem__)


def live_bytes(
    step: Step,
    order: Collection[Node],
    entering: Collection[Node],
    staying: Collection[Node],
    arriving: Collection[Node] = frozenset(),
) -> list[int]:
    """The bytes that are live at each call of `order`, beside what is given: `entering` is there at its begin, `staying` at its end,
    `arriving` from when it is first read."""
    held = _held(step, order, set(staying)) | set(entering) | set(arriving)
    first, last = dict.fromkeys(entering, 0), dict.fromkeys(entering, 0)
    for number, node in enumerate(order):
        if step.root(node) is node and node in held:
            first.setdefault(node, number)
            last[node] = max(last.get(node, 0), number)
            for read in _reaches(step, node, held):
                if read in arriving:
                    first.setdefault(read, number)
                last[read] = number
    changes = [0] * (len(order) + 2)
    for node, begin in first.items():
        if node in step.given:
            continue
        changes[begin] += step.size(node)
        changes[(len(order) if node in staying else last[node]) + 1] -= step.size(node)
    return list(accumulate(changes))[: len(order) + 1]


def _held(step: Step, order: Iterable[Node], staying: set[Node]) -> set[Node]:
    """The values of `order` that get memory."""
    readers: dict[Node, list[Node]] = {}
    for node in order:
        if step.root(node) is node:
            for read in step.reads(node):
                readers.setdefault(read, []).append(node)

    def is_held(node: Node) -> bool:
        users = readers.get(node, [])
        return node in staying or not step.fuses(node) or len(users) > INLINED or not all(map(step.fuses, users))

    return {node for node in order if step.root(node) is node and is_held(node)}


def _reaches(step: Step, node: Node, held: set[Node]) -> set[Node]:
    """The values with memory that `node` reads, itself or by what is computed where it is read."""
    found, todo = set[Node](), [node]
    seen = set[Node]()
    while todo:
        for read in step.reads(todo.pop()):
            if read in seen:
                continue
            seen.add(read)
            if read in held:
                found.add(read)
            elif read.op == "call_function":
                todo.append(read)
    return found
