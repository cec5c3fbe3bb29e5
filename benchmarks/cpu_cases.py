"""The CPU kernels that are measured: name -> a function that makes (callable, arguments, whether it trains)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Case:
    """`run(*inputs)` is what is compiled; with `train`, its output's sum of a fixed weighting is differentiated."""

    name: str
    shape: str
    make: Callable[[], tuple[Callable, list[torch.Tensor]]]
    train: bool = False


def _rand(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def bias_gelu():
    return lambda x, b: F.gelu(x + b), [_rand(2048, 1024), _rand(1024)]


def add_rmsnorm():
    def run(x, y, w):
        z = x + y
        return z, z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-6) * w

    return run, [_rand(2048, 1024), _rand(2048, 1024), _rand(1024)]


def softmax_rows():
    return lambda x: torch.softmax(x, -1), [_rand(2048, 1024)]


def softmax_columns():
    return lambda x: torch.softmax(x, 0), [_rand(2048, 1024)]


def layer_norm():
    return lambda x, w, b: F.layer_norm(x, (1024,), w, b), [
        _rand(2048, 1024, grad=True),
        _rand(1024, grad=True),
        _rand(1024, grad=True),
    ]


def cross_entropy():
    target = torch.randint(0, 8192, (256,))
    return lambda x: F.cross_entropy(x, target), [_rand(256, 8192, grad=True)]


def swiglu_bf16():
    return lambda x, y: F.silu(x) * y, [
        _rand(2048, 2048, dtype=torch.bfloat16),
        _rand(2048, 2048, dtype=torch.bfloat16),
    ]


def add_transposed():
    return lambda x, y: torch.relu(x + y.t()), [_rand(1536, 1536), _rand(1536, 1536)]


def sum_columns():
    return lambda x: x.sum(0), [_rand(4096, 1024)]


def var_rows():
    return lambda x: x.var(-1), [_rand(2048, 1024)]


def batch_norm_relu():
    mean, var = torch.zeros(64), torch.ones(64)
    return (
        lambda x, w, b: F.relu(F.batch_norm(x, mean, var, w, b, training=True)),
        [_rand(16, 64, 32, 32, grad=True), _rand(64, grad=True), _rand(64, grad=True)],
    )


def embedding():
    index = torch.randint(0, 32000, (8, 512))
    return lambda w: F.embedding(index, w) * 2.0, [_rand(32000, 512)]


def cat_pad():
    return lambda x, y: F.pad(torch.cat([x[:, 8:], y], 1), (4, 4)) + 1.0, [_rand(1024, 1024), _rand(1024, 1024)]


def adamw():
    """One AdamW step over 16 tensors of 256 x 256, written out; state is updated in place."""
    count, step = 16, 10.0
    parameters, gradients, firsts, seconds = ([_rand(256, 256) for _ in range(count)] for _ in range(4))
    seconds = [s.square() for s in seconds]

    def run(*tensors):
        for i in range(count):
            p, g, m, v = tensors[i::count]
            p.mul_(1 - 1e-3 * 0.01)
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            scale = (v.sqrt() / (1 - 0.999**step) ** 0.5).add_(1e-8)
            p.addcdiv_(m, scale, value=-1e-3 / (1 - 0.9**step))

    return run, [*parameters, *gradients, *firsts, *seconds]


CASES = [
    Case("bias + gelu", "2048 x 1024", bias_gelu),
    Case("add + rmsnorm, both returned", "2048 x 1024", add_rmsnorm),
    Case("softmax over rows", "2048 x 1024", softmax_rows),
    Case("softmax over columns", "2048 x 1024", softmax_columns),
    Case("layer_norm, training", "2048 x 1024", layer_norm, train=True),
    Case("cross_entropy, training", "256 x 8192", cross_entropy, train=True),
    Case("swiglu, bf16", "2048 x 2048", swiglu_bf16),
    Case("relu(x + y.t())", "1536 x 1536", add_transposed),
    Case("sum of columns", "4096 x 1024", sum_columns),
    Case("var over rows", "2048 x 1024", var_rows),
    Case("batch_norm + relu, training", "16 x 64 x 32 x 32", batch_norm_relu, train=True),
    Case("embedding", "4096 of 32000 x 512", embedding),
    Case("cat + pad", "1024 x 1024, twice", cat_pad),
    Case("AdamW, 16 tensors", "256 x 256 each", adamw),
]


def step(case: Case, run: Callable, inputs: list[torch.Tensor]) -> Callable[[], object]:
    """The timed function: a call, and for a training case the backward pass with it."""
    if not case.train:
        return lambda: run(*inputs)

    def training_step():
        for tensor in inputs:
            tensor.grad = None
        out = run(*inputs)
        out.backward(torch.ones_like(out))
        return [tensor.grad for tensor in inputs if tensor.requires_grad]

    return training_step
