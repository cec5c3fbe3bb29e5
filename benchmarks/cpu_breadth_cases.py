"""Sixty operators as models meet them, each of rows and columns: name -> a function of the two that makes (what is compiled, its inputs).

An input that requires a gradient makes the case a training case: what is timed is then a forward and its backward.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

Made = tuple[Callable, list[Tensor]]
SIZES = ((64, 64), (512, 512), (2048, 2048))  # rows and columns: of a call, of the second-level cache, of memory
CHANNELS = 16


def full(rows: int, columns: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
    return torch.randn(rows, columns).to(dtype).requires_grad_(grad)


def image(rows: int, columns: int, grad: bool = False) -> Tensor:
    """As many elements as a matrix, in sixteen channels of squares."""
    side = int((rows * columns / 4 / CHANNELS) ** 0.5)
    return torch.randn(4, CHANNELS, side, side).requires_grad_(grad)


def of(run: Callable, *kinds: Callable[[int, int], Tensor]) -> Callable[[int, int], Made]:
    """A case whose inputs `kinds` make of rows and columns."""
    return lambda rows, columns: (run, [kind(rows, columns) for kind in kinds])


half, double, small_int = (partial(full, dtype=d) for d in (torch.bfloat16, torch.float64, torch.int8))
trained = partial(full, grad=True)


def vector(rows: int, columns: int, grad: bool = False) -> Tensor:
    return torch.randn(columns).requires_grad_(grad)


def positive(rows: int, columns: int) -> Tensor:
    return torch.rand(rows, columns) + 0.5


def mask(rows: int, columns: int) -> Tensor:
    return torch.rand(rows, columns) > 0.5


def row_numbers(rows: int, columns: int) -> Tensor:
    return torch.randint(0, rows, (rows,))


def column_numbers(rows: int, columns: int) -> Tensor:
    return torch.randint(0, columns, (rows,))


def column_table(rows: int, columns: int) -> Tensor:
    return torch.randint(0, columns, (rows, columns))


def heads(rows: int, columns: int) -> Tensor:
    """batch x tokens x heads x 32 or less."""
    return torch.randn(2, rows // 2, columns // 32, 32)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return x * cos + torch.cat([-other, one], -1) * sin


def add_rms_norm(x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    z = x + y
    return z, z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-6) * w


def batch_norm(x: Tensor, training: bool) -> Tensor:
    channel = torch.linspace(0.5, 1.5, CHANNELS, dtype=x.dtype)
    return F.batch_norm(x, channel.clone(), channel.clone(), channel, channel, training=training)


def adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    p.mul_(1 - 1e-5)
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    return p.addcdiv_(m, (v.sqrt() / 0.1).add_(1e-8), value=-1e-3), m, v


def sgd(p: Tensor, g: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    m.mul_(0.9).add_(g.add(p, alpha=1e-4))
    return p.add_(m, alpha=-0.01), m


CASES: dict[str, Callable[[int, int], Made]] = {
    "relu": of(F.relu, full),
    "gelu": of(F.gelu, full),
    "gelu, tanh": of(lambda x: F.gelu(x, approximate="tanh"), full),
    "gelu, bf16": of(F.gelu, half),
    "gelu, training": of(F.gelu, trained),
    "silu": of(F.silu, full),
    "sigmoid": of(torch.sigmoid, full),
    "leaky_relu": of(F.leaky_relu, full),
    "elu": of(F.elu, full),
    "hardswish": of(F.hardswish, full),
    "softplus, training": of(F.softplus, trained),
    "bias + gelu": of(lambda x, b: F.gelu(x + b), full, vector),
    "swiglu": of(lambda x, y: F.silu(x) * y, full, full),
    "swiglu, bf16": of(lambda x, y: F.silu(x) * y, half, half),
    "masked_fill": of(lambda x, m: x.masked_fill(m, -1e4), full, mask),
    "clamp, normalized": of(lambda x: (x.clamp(-2, 2) + 2) / 4, full),
    "lerp": of(lambda x, y, w: torch.lerp(x, y, w), full, full, full),
    "addcmul": of(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), full, full, full),
    "add, int8": of(torch.add, small_int, small_int),
    "add, bf16": of(torch.add, half, half),
    "cast to bf16": of(lambda x: x.to(torch.bfloat16), full),
    "distance": of(lambda x, y: ((x - y) ** 2).sum(-1).sqrt(), full, full),
    "rotary": of(rotary, heads, *[lambda r, c: torch.randn(1, r // 2, 1, 32)] * 2),
    "layer_norm": of(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), full, vector, vector),
    "layer_norm, training": of(
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), trained, *[partial(vector, grad=True)] * 2
    ),
    "rms_norm": of(lambda x, w: F.rms_norm(x, x.shape[-1:], w), full, vector),
    "add + rms_norm": of(add_rms_norm, full, full, vector),
    "batch_norm": of(partial(batch_norm, training=False), image),
    "batch_norm, training": of(partial(batch_norm, training=True), partial(image, grad=True)),
    "group_norm": of(lambda x: F.group_norm(x, 4), image),
    "normalize": of(F.normalize, full),
    "softmax": of(lambda x: x.softmax(-1), full),
    "softmax, columns": of(lambda x: x.softmax(0), full),
    "softmax, training": of(lambda x: x.softmax(-1), trained),
    "masked softmax": of(lambda x, m: x.masked_fill(m, -1e9).softmax(-1), full, mask),
    "log_softmax": of(lambda x: x.log_softmax(-1), full),
    "cross_entropy": of(F.cross_entropy, trained, column_numbers),
    "mse_loss, training": of(F.mse_loss, trained, full),
    "smooth_l1_loss": of(F.smooth_l1_loss, full, full),
    "bce_with_logits": of(F.binary_cross_entropy_with_logits, trained, positive),
    "kl_div": of(lambda x, y: F.kl_div(x, y, reduction="batchmean"), full, positive),
    "sum, rows": of(lambda x: x.sum(-1), full),
    "sum, rows, f64": of(lambda x: x.sum(-1), double),
    "sum, columns": of(lambda x: x.sum(0), full),
    "var": of(lambda x: x.var(-1), full),
    "argmax": of(lambda x: x.argmax(-1), full),
    "logsumexp": of(lambda x: x.logsumexp(-1), full),
    "cumsum": of(lambda x: x.cumsum(-1), full),
    "logcumsumexp": of(lambda x: x.logcumsumexp(-1), full),
    "embedding": of(lambda i, w: F.embedding(i, w), row_numbers, full),
    "gather, training": of(lambda x, i: x.gather(1, i), trained, column_table),
    "scatter_add of rows": of(
        lambda x, i: torch.zeros_like(x).scatter_add(0, i[:, None].expand_as(x), x), full, row_numbers
    ),
    "index_add": of(lambda x, i, y: x.index_add(0, i, y), full, row_numbers, full),
    "cat of five": of(lambda *xs: torch.cat(xs, 1), *[full] * 5),
    "stack, scaled": of(lambda *xs: torch.stack(xs) * 0.5, *[full] * 4),
    "permute(0, 2, 1, 3)": of(lambda x: x.permute(0, 2, 1, 3).contiguous(), heads),
    "add transposed": of(lambda x, y: x + y.t(), full, full),
    "max_pool2d": of(lambda x: F.max_pool2d(x, 2), image),
    "AdamW": of(adamw, full, full, full, positive),
    "SGD with momentum": of(sgd, full, full, full),
}
