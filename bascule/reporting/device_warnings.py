"""Warnings about a GPU that users of `torch.compile` know: TF32 is there and off, bf16 is not there. Each is given once a process and device.

What of a graph they are about is kept with it on disk, so that a process that loads it is warned too.
"""

import warnings
from collections.abc import Sequence
from functools import cache

import torch
from torch.fx import GraphModule

from bascule.frontend.fx.matmul_precision import allows_tf32

from ..compat.tensors.pytree import tree_leaves

AMPERE = (8, 0)
PRODUCTS = tuple(getattr(torch.ops.aten, name) for name in ("mm", "addmm", "bmm", "baddbmm", "convolution"))
F32_PRODUCTS, BF16 = "float32 products", "bfloat16 tensors"  # what warnings are about


def subjects_of(gm: GraphModule, device: torch.device) -> tuple[str, ...]:
    """The subjects of warnings that `gm`, to be compiled for `device`, may give reason for."""
    if device.type != "cuda":
        return ()
    products = any(map(_is_f32_product, gm.graph.nodes))
    bf16 = any(tensor.dtype == torch.bfloat16 for node in gm.graph.nodes for tensor in _tensors(node))
    return (F32_PRODUCTS,) * products + (BF16,) * bf16


def warn_about(subjects: Sequence[str], device: torch.device) -> None:
    """Warns where a graph with `subjects` would be faster on `device` with TF32, or has bf16 tensors that the device only emulates."""
    if not subjects:
        return
    modern = torch.cuda.get_device_capability(device) >= AMPERE
    if F32_PRODUCTS in subjects and modern and not allows_tf32():
        _tf32(device)
    if BF16 in subjects and not modern:
        _bf16(device)


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    return [value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def _is_f32_product(node: torch.fx.Node) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return packet in PRODUCTS and any(tensor.dtype == torch.float32 for tensor in _tensors(node))


@cache
def _tf32(device: torch.device) -> None:
    warnings.warn(
        "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled. "
        "Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
        stacklevel=3,
    )


@cache
def _bf16(device: torch.device) -> None:
    name = torch.cuda.get_device_name(device)
    warnings.warn(f"{name} does not support bfloat16 natively: it is computed in float32", stacklevel=3)
