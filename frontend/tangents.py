"""Gradients that a compiled backward is given: autograd passes some on as tensors of zeros that have no memory (the gradient of `sgn`)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Boxed = Callable[[list[Any]], Sequence[Any]]


def tangents_of(graph: torch.fx.Graph) -> tuple[int, ...]:
    """The numbers of the inputs of a backward that are gradients: the partitioner calls them `tangents_1`, ..., and among them what subclasses
    of tensors hold beside tensors."""
    inputs = enumerate(graph.find_nodes(op="placeholder"))
    return tuple(n for n, x in inputs if x.name.startswith("tangents_") and isinstance(x.meta.get("val"), torch.Tensor))


def with_memory(call: Boxed, tangents: Sequence[int]) -> Boxed:
    """`call`, whose inputs of numbers `tangents` have memory: kernels take addresses."""

    def run(args: list[Any]) -> Sequence[Any]:
        for number in tangents:
            if args[number]._is_zerotensor():
                args[number] = _zeros_like(args[number])
        return call(args)  # nothing here holds an input: it is freed after its last use

    run._boxed_call = True  # type: ignore[attr-defined]
    finished = getattr(call, "finished", None)
    if finished is not None:  # for who calls what is finished without what waited for it
        run.finished = lambda: with_memory(finished(), tangents)  # type: ignore[attr-defined]
    return run


def _zeros_like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).zero_()
