"""The 20 memory-bound kernels that are measured on a GPU: functions, inputs, and the fewest bytes that must move."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class KernelCase:
    """`function(*make(scale))` is timed; sizes are divided by `scale` (1: as measured). `bytes` must move at least, at scale 1.

    `exact`: whether results can be compared with eager's in f32 (not where random numbers differ).
    """

    name: str
    function: Callable[..., Any]
    make: Callable[[int], list[Any]]
    bytes: float
    backward: bool = False
    exact: bool = True


def _randn(
    *sizes: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False, channels_last: bool = False
) -> torch.Tensor:
    x = torch.randn(*sizes, device="cuda", dtype=dtype)
    return x.to(memory_format=torch.channels_last).requires_grad_(grad) if channels_last else x.requires_grad_(grad)


def gelu_bias(x, b, y):
    return F.gelu(x * 1.5 + b) + y


def silu_mul(x, y):
    return F.silu(x) * y


def rmsnorm(x, residual, w):
    h = x + residual
    f = h.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w, h


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def softmax(x):
    return torch.softmax(x, -1, dtype=torch.float32).to(x.dtype)


def cross_entropy(x, target):
    return F.cross_entropy(x.float(), target)


def rotary(q, k, cos, sin):
    def turned(x):
        half = x.shape[-1] // 2
        return torch.cat([-x[..., half:], x[..., :half]], -1)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def dropout_layer_norm(x, residual, w, b):
    return F.layer_norm(F.dropout(x, 0.1) + residual, x.shape[-1:], w, b)


def batch_norm_relu(x, w, b):
    return F.relu(F.batch_norm(x, None, None, w, b, training=True))


def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b))


def transposed_add(x, y):
    return F.relu(x + y.t())


def sum_of_squares(x):
    return x.float().square().sum()


def sum_over_rows(x):
    return x.sum(0)


def var_mean(x):
    return torch.var_mean(x.float(), -1)


def embedding(index, w):
    return F.embedding(index, w)


def cumsum(x):
    return x.cumsum(-1)


def quantise(x):
    scale = x.abs().amax(-1, keepdim=True).float() / 448.0
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def cat_slice_pad(x, y):
    return F.pad(torch.cat([x, y], 1)[:, 64:-64], (64, 64)) + 1


def adamw_tensors(count: int, size: int) -> list[Any]:
    parameters = [torch.randn(size, size, device="cuda", requires_grad=True) for _ in range(count)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return [torch.optim.AdamW(parameters, lr=1e-3, foreach=True, capturable=True)]


M = 1024 * 1024

CASES = [
    KernelCase(
        "gelu(x * 1.5 + b) + y",
        gelu_bias,
        lambda s: [_randn(8192 // s, 8192), _randn(8192), _randn(8192 // s, 8192)],
        64 * M * 6,
    ),
    KernelCase("silu(x) * y", silu_mul, lambda s: [_randn(16384 // s, 11008) for _ in range(2)], 172 * M * 6),
    KernelCase(
        "residual add + rmsnorm",
        rmsnorm,
        lambda s: [_randn(16384 // s, 8192), _randn(16384 // s, 8192), _randn(8192)],
        128 * M * 8,
    ),
    KernelCase(
        "layer_norm f + b",
        layer_norm,
        lambda s: [_randn(16384 // s, 4096, grad=True), _randn(4096, grad=True), _randn(4096, grad=True)],
        64 * M * 10,
        backward=True,
    ),
    KernelCase("softmax 8192", softmax, lambda s: [_randn(16384 // s, 8192)], 128 * M * 4),
    KernelCase("softmax 131072", softmax, lambda s: [_randn(4096 // s, 131072)], 512 * M * 4),
    KernelCase(
        "cross_entropy f + b",
        cross_entropy,
        lambda s: [_randn(8192 // s, 128256, grad=True), torch.randint(0, 128256, (8192 // s,), device="cuda")],
        8192 * 128256 * 6,
        backward=True,
    ),
    KernelCase(
        "rotary embedding",
        rotary,
        lambda s: [
            _randn(8, 32, 4096 // s, 128),
            _randn(8, 8, 4096 // s, 128),
            _randn(4096 // s, 128),
            _randn(4096 // s, 128),
        ],
        160 * M * 4,
    ),
    KernelCase(
        "dropout + add + layer_norm f + b",
        dropout_layer_norm,
        lambda s: [
            _randn(16384 // s, 4096, grad=True),
            _randn(16384 // s, 4096, grad=True),
            _randn(4096, grad=True),
            _randn(4096, grad=True),
        ],
        64 * M * 14,
        backward=True,
        exact=False,
    ),
    KernelCase(
        "batch_norm + relu f + b",
        batch_norm_relu,
        lambda s: [
            _randn(64 // s, 256, 56, 56, grad=True, channels_last=True),
            _randn(256, grad=True),
            _randn(256, grad=True),
        ],
        49 * M * 12,
        backward=True,
    ),
    KernelCase(
        "group_norm + silu",
        group_norm_silu,
        lambda s: [_randn(16 // s, 320, 128, 128), _randn(320), _randn(320)],
        80 * M * 4,
    ),
    KernelCase(
        "relu(x + y.t()) f32",
        transposed_add,
        lambda s: [_randn(8192 // s, 8192 // s, dtype=torch.float32) for _ in range(2)],
        64 * M * 12,
    ),
    KernelCase("sum of squares", sum_of_squares, lambda s: [_randn(1024 * M // s)], 1024 * M * 2),
    KernelCase("sum over rows", sum_over_rows, lambda s: [_randn(131072 // s, 4096)], 512 * M * 2),
    KernelCase("var_mean of long rows", var_mean, lambda s: [_randn(64, 4 * M // s)], 256 * M * 2),
    KernelCase(
        "embedding f + b",
        embedding,
        lambda s: [torch.randint(0, 128256 // s, (32768 // s,), device="cuda"), _randn(128256 // s, 2048, grad=True)],
        (128256 + 3 * 32768) * 2048 * 2,
        backward=True,
    ),
    KernelCase("cumsum of rows f32", cumsum, lambda s: [_randn(16384 // s, 8192, dtype=torch.float32)], 128 * M * 8),
    KernelCase("fp8 quantisation", quantise, lambda s: [_randn(16384 // s, 8192)], 128 * M * 3),
    KernelCase(
        "cat, slice, pad, add", cat_slice_pad, lambda s: [_randn(8192 // s, 4096) for _ in range(2)], 64 * M * 4
    ),
    KernelCase(
        "AdamW, 128 tensors f32",
        lambda optimizer: optimizer.step(),
        lambda s: adamw_tensors(128, 1024 // s),
        128 * M * 28,
    ),
]
