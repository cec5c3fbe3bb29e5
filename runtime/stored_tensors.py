"""Tensors as plain data: what JSON can say of one, and its bytes."""

from collections.abc import Mapping
from typing import Any

import torch


def told_of(value: torch.Tensor) -> dict[str, Any]:
    """The dtype, the device, the sizes and the strides of what `tensor_of` will make."""
    device, value = str(value.device), _dense(value)
    return {"dtype": str(value.dtype), "device": device, "sizes": list(value.shape), "strides": list(value.stride())}


def bytes_of(value: torch.Tensor) -> bytes:
    """The elements, in the order of memory."""
    value = _dense(value)
    flat = value.as_strided((value.numel(),), (1,))
    return flat.contiguous().cpu().view(torch.uint8).numpy().tobytes() if value.numel() else b""


def tensor_of(told: Mapping[str, Any], content: bytes) -> torch.Tensor:
    """A tensor of its own with what `told_of` and `bytes_of` told; without any bytes, of any elements."""
    dtype, device = getattr(torch, told["dtype"].removeprefix("torch.")), told["device"]
    if not content:
        return torch.empty_strided(told["sizes"], told["strides"], dtype=dtype, device=device)
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype)
    return flat.to(device).as_strided(told["sizes"], told["strides"])


def _dense(value: torch.Tensor) -> torch.Tensor:
    """`value`, or a copy where its elements are not all of its memory in some order."""
    value = value.detach()
    return value if torch.ops.aten.is_non_overlapping_and_dense(value) else value.contiguous()
