"""Gradients that a compiled backward is given, as their memory: autograd passes some on as tensors of zeros that have none (the gradient of
`sgn`), or as views that negate or conjugate what is in memory."""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.compat.tensors.functorch import is_legacy_batchedtensor

from ..fx.boxed import Boxed, boxed
from ..fx.graph_ends import inputs_of, is_tangent
from .saved_tensor_hooks import laid_out


def tangents_of(graph: torch.fx.Graph) -> tuple[int, ...]:
    """The numbers of the inputs of a backward that are gradients: the partitioner calls them `tangents_1`, ..., and among them what subclasses
    of tensors hold beside tensors."""
    inputs = enumerate(inputs_of(graph))
    return tuple(n for n, x in inputs if is_tangent(x) and isinstance(x.meta.get("val"), torch.Tensor))


def with_memory(call: Boxed, tangents: Sequence[int]) -> Boxed:
    """`call`, whose inputs of numbers `tangents` are what is in their memory: kernels take addresses. Zeros that have no memory stay so where
    `call` takes them as such (`nullable`: numbers of its inputs whose address may be 0).

    What it returns raises `RuntimeError` for batches of gradients (`is_grads_batched`).
    """

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        for number in tangents:
            x = args[number]
            if x._is_zerotensor():
                if number not in getattr(call, "nullable", ()):
                    args[number] = _materialized(x)
            elif x.is_neg() or x.is_conj():
                args[number] = _materialized(x)
            elif is_legacy_batchedtensor(x):
                raise RuntimeError(
                    "a compiled backward takes one gradient at a time, no batch of them (`is_grads_batched=True`, "
                    "`torch.autograd.functional` with `vectorize=True`): use torch.func inside of the compiled function"
                )
        x = None
        return call(args)  # nothing here holds an input: it is freed after its last use

    run.takes_zeros = True  # type: ignore[attr-defined]  # tensors of zeros that have no memory
    return run


def _materialized(x: torch.Tensor) -> torch.Tensor:
    if x._is_zerotensor():
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).zero_()
    return laid_out(x, x.stride())
