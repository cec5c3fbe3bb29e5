"""The tensors that a forward by operators saves for its backward: where each is among outputs and inputs, its strides, and the mark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from bascule.frontend.fx.graph_ends import VISIBLE, inputs_of, outputs_of
from bascule.frontend.fx.trace_context import hint
from bascule.runtime.memory.allocation import laid_out


@dataclass(frozen=True)
class Saved:
    """`layouts`: number of an output that is saved -> sizes and strides as traced, None where the sizes are no numbers and it is row-major.
    `mark`: of a tensor that the forward computes for its backward alone, its numbers among the outputs and among the backward's inputs; None
    where there is none: then all that is saved are inputs and results, of which both backwards take either's."""

    layouts: dict[int, tuple[tuple[int, ...], tuple[int, ...]] | None]
    mark: tuple[int, int] | None

    def left(self, outputs: Sequence[Any], name: str, *, marked: bool) -> list[Any]:
        """`outputs` of a forward, those that are saved as a compiled one would leave them; with its mark `name` if they are to be `marked`."""
        left = list(outputs)
        for number, layout in self.layouts.items():
            left[number] = left[number].contiguous() if layout is None else laid_out(left[number], *layout)
        if marked and self.mark is not None:
            number = self.mark[0]
            if left[number]._is_view():  # which AOTAutograd detaches, and the mark would be gone
                left[number] = left[number].detach()
            setattr(left[number], name, True)
        return left

    def has(self, args: Sequence[Any], name: str) -> bool:
        """Whether a backward is given what a forward marked."""
        return self.mark is not None and hasattr(args[self.mark[1]], name)


def saved_for(forward: GraphModule, backward: GraphModule) -> Saved:
    """The tensors that the one saves for the other; the partitioner gives them one name in both."""
    outputs = outputs_of(forward.graph)
    visible = forward.graph.output_node().meta.get(VISIBLE, len(outputs))
    seen = {x for x in outputs[:visible] if isinstance(x, Node)}
    inputs = {node.name: number for number, node in enumerate(inputs_of(backward.graph))}
    layouts: dict[int, tuple[tuple[int, ...], tuple[int, ...]] | None] = {}
    mark = None
    for number, x in enumerate(outputs[visible:], visible):
        value = x.meta.get("val") if isinstance(x, Node) else None
        if not isinstance(value, torch.Tensor) or x.op == "placeholder" or x in seen or x.name not in inputs:
            continue
        mark = mark or (number, inputs[x.name])
        sizes, strides = tuple(value.shape), tuple(value.stride())
        if all(isinstance(n, int) for n in (*sizes, *strides)):
            layouts[number] = sizes, strides
        elif _row_major(value):
            layouts[number] = None
    return Saved(layouts, mark)


def _row_major(x: torch.Tensor) -> bool:
    """By the numbers that its symbols stand for now."""
    step = 1
    for size, stride in zip(reversed(x.shape), reversed(x.stride())):
        if hint(size) != 1 and hint(stride) != step:
            return False
        step *= hint(size) or 1
    return True
