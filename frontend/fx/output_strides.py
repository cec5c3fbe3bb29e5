"""How tensors lie in memory: outputs of a graph keep the strides that they were traced with, whatever passes did to what computes them, and
results of what stands for an operator get those of its results."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node

from .graph_ends import outputs_of
from .node_values import complete_values
from .trace_context import hint

aten = torch.ops.aten


@dataclass(frozen=True)
class Dense:
    """A tensor that fills its memory: its dimensions from that of the largest stride; those of size 1 may lie anywhere."""

    rank: int
    order: tuple[int, ...] = field(compare=False)
    moving: tuple[int, ...]  # of them, those of other sizes

    @property
    def back(self) -> list[int]:
        """The permutation that undoes `order`."""
        return [self.order.index(dimension) for dimension in range(self.rank)]


def laid_out(x: Any, like: Any) -> Any:
    """`x` with its dims in the order in memory that those of `like` have. Strides are compared by the numbers that their symbols were seen with:
    symbols of `like` may be unknown to a trace that is being made. What is no tensor, and what fills no memory, stays as it is."""
    wanted = _lies(like)
    if wanted is None or not isinstance(x, torch.Tensor) or _lies(x) == wanted:
        return x
    return x.permute(wanted.order).clone(memory_format=torch.contiguous_format).permute(wanted.back)


def promised_strides(graph: Graph) -> list[Dense | None]:
    """How each output of `graph` lies in memory; None for what is no tensor, or fills no memory of its own."""
    return [_lies(_value(output)) for output in outputs_of(graph)]


def restore_strides(graph: Graph, promised: Sequence[Dense | None]) -> None:
    """Copies outputs that lie otherwise than `promised` before passes ran; a copy is a part of the kernel that computes its values."""
    end = graph.output_node()
    outputs = outputs_of(graph)
    for number, (output, dense) in enumerate(zip(outputs, promised, strict=True)):
        if dense is None or _lies(_value(output)) == dense or not _has_rank(output, dense.rank):
            continue
        with graph.inserting_before(end):
            ordered = graph.call_function(aten.permute.default, (output, list(dense.order)))
            copy = graph.call_function(aten.clone.default, (ordered,), {"memory_format": torch.contiguous_format})
            outputs[number] = graph.call_function(aten.permute.default, (copy, dense.back))
    end.args = (tuple(outputs) if isinstance(end.args[0], list | tuple) else outputs[0],)
    complete_values(graph)


def _has_rank(output: object, rank: int) -> bool:
    """Whether it is a tensor of so many dimensions: what else a pass may return is its user's."""
    value = _value(output)
    return isinstance(value, torch.Tensor) and value.dim() == rank


def _value(output: object) -> object:
    return output.meta.get("val") if isinstance(output, Node) else None


def _lies(value: object) -> Dense | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    sizes, strides = [*map(hint, value.shape)], [*map(hint, value.stride())]
    if None in (*sizes, *strides) or 0 in sizes:
        return None
    order = sorted(range(value.dim()), key=lambda dimension: (-strides[dimension], dimension))
    wanted = [prod(sizes[later] for later in order[place + 1 :]) for place in range(len(order))]
    fills = all(strides[dimension] == stride or sizes[dimension] == 1 for dimension, stride in zip(order, wanted))
    return Dense(value.dim(), tuple(order), tuple(d for d in order if sizes[d] != 1)) if fills else None
