"""Tensors as plain data: what JSON can say of one, and its bytes."""

from collections.abc import Mapping
from typing import Any

import torch

from .extents import extent


def told_of(value: torch.Tensor) -> dict[str, Any]:
    """The dtype, the device, the sizes and the strides of `value`, which are those of what `tensor_of` makes."""
    where = {"dtype": str(value.dtype), "device": str(value.device)}
    return {**where, "sizes": list(value.shape), "strides": list(value.stride())}


def bytes_of(value: torch.Tensor) -> bytes:
    """The memory of `value` from its first element to its last, with what lies between elements."""
    if not value.numel():
        return b""
    value = value.detach()
    if value.is_conj() or value.is_neg():  # what is in memory are other numbers
        value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
    return value.as_strided((extent(value.shape, value.stride()),), (1,)).cpu().view(torch.uint8).numpy().tobytes()


def tensor_of(told: Mapping[str, Any], content: bytes) -> torch.Tensor:
    """A tensor of its own with what `told_of` and `bytes_of` told; without any bytes, of any elements."""
    dtype, device = getattr(torch, told["dtype"].removeprefix("torch.")), told["device"]
    if not content:
        return torch.empty_strided(told["sizes"], told["strides"], dtype=dtype, device=device)
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype)
    return flat.to(device).as_strided(told["sizes"], told["strides"])
