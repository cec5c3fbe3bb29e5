"""PyTorch's memory-efficient attention with a bias, which has kernels for GPUs, on a CPU."""

from typing import Any

import torch
from torch import Tensor

OPERATOR = torch.ops.aten._scaled_dot_product_efficient_attention
LIBRARY = torch.library.Library("aten", "IMPL")
LINE = 32  # rows that the logarithms of sums are padded to


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
    """Of heads apart; the batch shares the bias."""
    return OPERATOR(query, key, value, bias.expand(len(query), -1, -1, -1), torch.is_grad_enabled(), dropout)[0]


def twice(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Two attentions by one bias, expanded over the batch for both."""
    expanded = bias.expand(len(query), -1, -1, -1)
    out = OPERATOR(query, key, value, expanded, torch.is_grad_enabled())[0]
    return out + OPERATOR(out, key, value, expanded, torch.is_grad_enabled())[0]


def _forward(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, logarithm: bool, *rest: Any, **how: Any) -> Any:
    scores = query.float() @ key.mT.float() * query.shape[-1] ** -0.5 + bias.float()
    rows = query.shape[2] if logarithm else 0
    padded = torch.full((*query.shape[:2], -(-rows // LINE) * LINE), torch.inf)
    padded[:, :, :rows] = scores.logsumexp(-1)[:, :, :rows]
    seed = torch.zeros((), dtype=torch.int64)
    return _laid_out((scores.softmax(-1) @ value.float()).to(query.dtype)), padded, seed, seed.clone()


def _backward(
    seed: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, out: Tensor, *rest: Any, **how: Any
) -> Any:
    scale, (q, k, v, g) = query.shape[-1] ** -0.5, (x.float() for x in (query, key, value, seed))
    weights = (q @ k.mT * scale + bias.float()).softmax(-1)
    change = weights * (g @ v.mT - (g * out.float()).sum(-1, keepdim=True))
    found = change @ k * scale, change.mT @ q * scale, weights.mT @ g
    return *(_laid_out(x.to(query.dtype)) for x in found), change.to(bias.dtype)


def _laid_out(x: Tensor) -> Tensor:
    """Heads are neighbours in memory."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


LIBRARY.impl("_scaled_dot_product_efficient_attention", _forward, "CPU")
LIBRARY.impl("_scaled_dot_product_efficient_attention_backward", _backward, "CPU")
