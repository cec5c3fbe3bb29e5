"""Saved values by cuts of the forward: what lies across a cut is saved, the rest is computed again segment by segment.

No solver is asked: where its time is over before it has found a choice, or a good one, these stand. After Chen et al., "Training Deep Nets with
Sublinear Memory Cost", with segments of about as many products and other operators that do not fuse, and each cut where the fewest bytes lie
across.
"""

from collections.abc import Iterator
from itertools import accumulate
from operator import getitem

from torch.fx import Node

from .training_step import Step, is_computed_again_for_sure, is_number, is_saved_for_sure

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of cuts


def checkpoints(step: Step) -> Iterator[tuple[Node, ...]]:
    """For each of `COUNTS` the values that a forward saves, where each next one saves others."""
    order = [node for node in step.forward if step.root(node) is node and not is_number(node)]
    outputs = {step.root(node) for node in step.forward_outputs}
    last = _last_readers(step, order)
    free = step.given | outputs
    sizes = [0 if node in free else step.size(node) for node in order]
    across = _bytes_across(sizes, [last[node] for node in order])
    sure = [node for node in order if _is_sure(node) and step.size(node)]
    before = list(accumulate(int(not step.fuses(node)) for node in order))
    seen = set[tuple[Node, ...]]()
    for count in COUNTS:
        saved = dict.fromkeys(sure)
        for cut in _cuts(before, across, count):
            crossing = (node for node in order[: cut + 1] if last[node] > cut)
            saved |= dict.fromkeys(node for node in crossing if _may_be_saved(step, node))
        if tuple(saved) not in seen:
            seen.add(tuple(saved))
            yield tuple(saved)


def _is_sure(node: Node) -> bool:
    """Whether `node`, or what it takes one tensor of, may not be computed again."""
    return is_saved_for_sure(node.args[0] if node.target is getitem and isinstance(node.args[0], Node) else node)


def _may_be_saved(step: Step, node: Node) -> bool:
    return bool(step.size(node)) and node not in step.chunked and not is_computed_again_for_sure(node)


def _last_readers(step: Step, order: list[Node]) -> dict[Node, int]:
    """The number of the last call of the forward that reads each; its own, where none does."""
    last = {node: number for number, node in enumerate(order)}
    for number, node in enumerate(order):
        for read in step.reads(node):
            if read in last:
                last[read] = number
    return last


def _bytes_across(sizes: list[int], last: list[int]) -> list[int]:
    """The bytes across the cut behind each call: of values that are made before, and read after."""
    changes = [0] * (len(sizes) + 1)
    for number, (size, end) in enumerate(zip(sizes, last, strict=True)):
        changes[number] += size
        changes[end] -= size
    return list(accumulate(changes))[: len(sizes)]


def _cuts(before: list[int], across: list[int], count: int) -> Iterator[int]:
    """Where to cut into `count + 1` segments: `before` is the growing sum of what segments have about equally; `across` has the bytes across
    each cut."""
    whole, window = before[-1] if before else 0, 0
    for k in range(1, count + 1):
        low, high = ((2 * k + side) * whole / (2 * (count + 1)) for side in (-1, 1))
        inside = []
        while window < len(before) and before[window] <= high:
            if before[window] >= low:
                inside.append(window)
            window += 1
        if inside:
            yield min(inside, key=across.__getitem__)
