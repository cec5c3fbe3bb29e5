"""Checks of generated modules for the options `nan_asserts` and `size_asserts`."""

from collections.abc import Sequence

import torch

from ..memory.allocation import has_layout


def check_finite(what: str, tensor: torch.Tensor) -> None:
    """Raises AssertionError for a tensor of floating point numbers, called `what`, with NaN or infinities."""
    values = tensor if tensor.element_size() > 1 else tensor.float()  # float8 has no `isnan`
    nans, infinities = (int(found(values).sum()) for found in (torch.isnan, torch.isinf))
    if nans or infinities:
        raise AssertionError(
            f"nan_asserts: {what}: {nans} NaN and {infinities} infinities among {tensor.numel()} elements of {tensor.dtype}"
        )


def check_layout(what: str, tensor: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> None:
    """Raises AssertionError for a tensor, called `what`, of other sizes, or of other strides where it has elements."""
    if tensor.shape != torch.Size(sizes) or not has_layout(tensor, sizes, strides):
        raise AssertionError(
            f"size_asserts: {what}: compiled for sizes {list(sizes)} and strides {list(strides)}, "
            f"got sizes {list(tensor.shape)} and strides {list(tensor.stride())}"
        )


__all__ = ["check_finite", "check_layout"]
