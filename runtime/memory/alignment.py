"""Inputs that do not begin at a multiple of 16 bytes. Kernels are compiled for ones that do."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..boxed import Boxed
from .extents import extent
from .returned_views import same_part

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

    What `call` writes to arguments of numbers `written` is copied back. An output that is a copy is given as the argument it was made of, and
    one that lies in a copy as the same part of that: AOTAutograd asks it for its place.
    """
    given = list(args)
    for number in checked:
        args[number] = aligned(args[number])
    used = list(args)
    outputs = call(args)
    for number in written:
        if used[number] is not given[number]:
            given[number].data.copy_(used[number])  # no version of its own, as a kernel's write
    copies = {new.untyped_storage().data_ptr(): (new, old) for new, old in zip(used, given) if new is not old}
    return tuple(_in_its_argument(output, copies) for output in outputs)


def _in_its_argument(output: Any, copies: Mapping[int, tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """`output`, or if it is, or lies in, one of `copies` (by their addresses, each with its argument), the argument or the same part of it."""
    strided = isinstance(output, torch.Tensor) and output.layout is torch.strided
    copy, argument = copies.get(output.untyped_storage().data_ptr(), (None, None)) if strided else (None, None)
    if argument is None:
        return output
    return argument if output is copy else same_part(argument, output)
