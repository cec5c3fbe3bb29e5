"""Tensors over memory that is known by its address."""

from collections.abc import Sequence

import torch

from bascule.compat.tensors.allocation import storage_at


def tensor_at(
    address: int, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], device: torch.device
) -> torch.Tensor:
    """The tensor on `device` whose first element lies at `address`; strides, in elements, are not negative. Who owns the memory keeps it."""
    if 0 in size:
        return torch.empty(tuple(size), dtype=dtype, device=device)
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride))
    storage = storage_at(address, device, extent * dtype.itemsize)
    return torch.empty(0, dtype=dtype, device=device).set_(storage, 0, tuple(size), tuple(stride))
