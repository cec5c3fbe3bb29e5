"""Results that are views of others, or of what nobody else is given, as autograd sees them.

What is written to one of them later counts in all: a backward that saved another says that it was modified.
"""

from collections.abc import Sequence

import torch


def view_of(base: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> torch.Tensor:
    """A view of `base` that begins `offset` elements after it.

    It is made as with gradients, though compiled code runs without: a view from `no_grad` refuses to be written what requires gradients.
    An input that requires them is left to the `autograd.Function` around.
    """
    place = base.storage_offset() + offset
    if torch.is_grad_enabled() or base.requires_grad:
        return base.as_strided(sizes, strides, place)
    with torch.enable_grad():
        return base.as_strided(sizes, strides, place)


def saved_view(base: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> torch.Tensor:
    """The same to be saved for the backward, which AOTAutograd detaches: its version is that of `base`."""
    return base.as_strided(sizes, strides, base.storage_offset() + offset)


def same_part(argument: torch.Tensor, of_copy: torch.Tensor) -> torch.Tensor:
    """The part of `argument` that lies where `of_copy`, of any dtype, lies in a copy of it which begins at the first byte of its storage."""
    if of_copy.dtype == argument.dtype:
        return view_of(argument, of_copy.shape, of_copy.stride(), of_copy.storage_offset())
    place = argument.storage_offset() * argument.itemsize // of_copy.itemsize + of_copy.storage_offset()
    other = torch.empty(0, dtype=of_copy.dtype, device=of_copy.device)
    return other.set_(argument.untyped_storage(), place, of_copy.shape, of_copy.stride())
