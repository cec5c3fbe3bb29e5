"""Attention with a bias and its gradients as tensor operators; scores are widened and not rounded, as in `flex_attention`'s forms.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention".
"""

import math

import torch
from torch import Tensor

from .flex_attention import LOG2_E, matrices, products, row_sums, softmax, working_dtype


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """softmax(query @ key^T * scale + bias) @ value, batch x heads x rows x columns, and of each row the logarithm of its sum of exponentials,
    -inf where the row is empty."""
    weights, largest, total = softmax(matrices(_scores(query, key, bias, scale)))
    out = torch.bmm(weights.to(query.dtype), matrices(value))
    logarithm = torch.where(largest.isinf(), largest, largest + total.log())
    return out.view(*query.shape[:3], value.shape[3]), logarithm.view(query.shape[:3])


def gradients(
    seed: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, out: Tensor, logarithm: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value and bias, of `seed`, that of the result `out`; `logarithm`: what `attention` gave beside it."""
    scores = _scores(query, key, bias, scale)
    # Of an empty row all powers are 0.
    shift = logarithm.masked_fill(logarithm == -math.inf, math.inf)[..., None]
    powers = torch.exp2((scores - shift) * LOG2_E)
    sums = row_sums(out, seed, None, scores.dtype)
    change = powers * (products(seed, value.transpose(-2, -1), scores.dtype) - sums)
    of_score = matrices((change * scale).to(query.dtype))
    of_value = torch.bmm(matrices(powers.to(query.dtype)).transpose(1, 2), matrices(seed))
    of_key = torch.bmm(of_score.transpose(1, 2), matrices(query))
    of_query = torch.bmm(of_score, matrices(key))
    return of_query.view(query.shape), of_key.view(key.shape), of_value.view(value.shape), change.to(bias.dtype)


def _scores(query: Tensor, key: Tensor, bias: Tensor, scale: float) -> Tensor:
    dtype = working_dtype(query)
    return products(query, key.transpose(-2, -1), dtype) * scale + bias.to(dtype)
