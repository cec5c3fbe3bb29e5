"""Inputs that do not begin at a multiple of 16 bytes. Kernels are compiled for ones that do."""

from collections.abc import Sequence
from typing import Any

import torch

from ..boxed import Boxed
from .extents import extent

ALIGNMENT = 16  # bytes: the widest load; `lowering/program/alignment.py` counts on it


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or a copy of it with the same strides that begins at a multiple of 16 bytes."""
    if tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    # Of the memory it spans, so that elements which share a place go on sharing it.
    flat = tensor.as_strided((extent(tensor.shape, tensor.stride()),), (1,))
    return flat.clone().as_strided(tensor.shape, tensor.stride(), 0)


def realigned(call: Boxed, args: list[Any], *, checked: Sequence[int], written: Sequence[int]) -> Sequence[Any]:
    """`call(args)` with aligned copies of the arguments of numbers `checked` where these are not aligned.

    What `call` writes to arguments of numbers `written` is copied back. An output that is a copy is given as the argument it was made of.
    """
    given = list(args)
    for number in checked:
        args[number] = aligned(args[number])
    used = list(args)
    outputs = call(args)
    own = {id(new): old for new, old in zip(used, given) if new is not old}
    for number in written:
        if used[number] is not given[number]:
            given[number].data.copy_(used[number])  # no version of its own, as a kernel's write
    return tuple(own.get(id(output), output) for output in outputs)
