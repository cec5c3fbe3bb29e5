"""Outputs of a graph keep the strides that they were traced with, whatever passes did to what computes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

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


def promised_strides(graph: Graph) -> list[Dense | None]:
    """How each output of `graph` lies in memory; None for what is no tensor, or fills no memory of its own."""
    return [_dense(output) for output in outputs_of(graph)]


def restore_strides(graph: Graph, promised: Sequence[Dense | None]) -> None:
    """Copies outputs that lie otherwise than `promised` before passes ran; a copy is a part of the kernel that computes its values."""
    end = graph.output_node()
    outputs = outputs_of(graph)
    for number, (output, dense) in enumerate(zip(outputs, promised, strict=True)):
        if dense is None or _dense(output) == dense or not _has_rank(output, dense.rank):
            continue
        back = [dense.order.index(dimension) for dimension in range(dense.rank)]
        with graph.inserting_before(end):
            ordered = graph.call_function(aten.permute.default, (output, list(dense.order)))
            copy = graph.call_function(aten.clone.default, (ordered,), {"memory_format": torch.contiguous_format})
            outputs[number] = graph.call_function(aten.permute.default, (copy, back))
    end.args = (tuple(outputs) if isinstance(end.args[0], list | tuple) else outputs[0],)
    complete_values(graph)


def _has_rank(output: object, rank: int) -> bool:
    """Whether it is a tensor of so many dimensions: what else a pass may return is its user's."""
    value = output.meta.get("val") if isinstance(output, Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == rank


def _dense(output: object) -> Dense | None:
    value = output.meta.get("val") if isinstance(output, Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    sizes, strides = [*map(hint, value.shape)], [*map(hint, value.stride())]
    if None in (*sizes, *strides) or 0 in sizes:
        return None
    order = sorted(range(value.dim()), key=lambda dimension: (-strides[dimension], dimension))
    wanted = [prod(sizes[later] for later in order[place + 1 :]) for place in range(len(order))]
    fills = all(strides[dimension] == stride or sizes[dimension] == 1 for dimension, stride in zip(order, wanted))
    return Dense(value.dim(), tuple(order), tuple(d for d in order if sizes[d] != 1)) if fills else None
