"""The precision that PyTorch's settings allow products of f32. `fp32_precision` tells it after either interface; the older one raises after the
newer."""

from typing import Any

import torch

TF32 = "tf32"


def allows_tf32() -> bool:
    """Whether cuBLAS may round factors of f32 to TF32."""
    return torch.backends.cuda.matmul.fp32_precision == TF32


def convolutions_are_alike() -> bool:
    """Whether cuDNN's convolutions of f32 may round their factors as cuBLAS may."""
    return (torch.backends.cudnn.conv.fp32_precision == TF32) == allows_tf32()


def matmul_settings() -> list[Any]:
    """Settings by which products on a CPU and on a GPU may take fewer bits of factors and sums."""
    cuda = torch.backends.cuda.matmul
    reduced = cuda.allow_fp16_reduced_precision_reduction, cuda.allow_bf16_reduced_precision_reduction
    return [torch.backends.mkldnn.matmul.fp32_precision, cuda.fp32_precision, *map(str, reduced)]
