"""Attention with a bias and its gradients as tensor operators; scores are widened and not rounded, as in `flex_attention`'s forms.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention".
"""

import math

import torch
from torch import Tensor

from .flex_attention import LOG2_E, matrices, products, row_sums, softmax, working_dtype


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float, dropout: float = 0.0
) -> tuple[Tensor, ...]:
    """softmax(query @ key^T * scale + bias) @ value, batch x heads x rows x columns; of each row the logarithm of its sum of exponentials, -inf
    where the row is empty; and which weights are kept, where some are dropped."""
    kept: list[Tensor] = []

    def dropped(weights: Tensor) -> Tensor:
        weights, mask = torch.ops.aten.native_dropout(weights, dropout, True)
        kept.append(mask)
        return weights

    scores = matrices(_scores(query, key, bias, scale))
    weights, largest, total = softmax(scores, dropped) if dropout else softmax(scores)
    out = torch.bmm(weights.to(query.dtype), matrices(value))
    logarithm = torch.where(largest.isinf(), largest, largest + total.log())
    return out.view(*query.shape[:3], value.shape[3]), logarithm.view(query.shape[:3]), *kept


def gradients(
    seed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    out: Tensor,
    logarithm: Tensor,
    kept: Tensor | None = None,
    *,
    scale: float,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value and bias, of `seed`, that of the result `out`; `logarithm`, `kept`: what `attention` gave beside it."""
    scores = _scores(query, key, bias, scale)
    # Of an empty row all powers are 0.
    shift = logarithm.masked_fill(logarithm == -math.inf, math.inf)[..., None]
    powers = torch.exp2((scores - shift) * LOG2_E)
    sums = row_sums(out, seed, None, scores.dtype)

    def passed(x: Tensor) -> Tensor:
        """Lets through what the dropout does, in either direction."""
        return x if kept is None else torch.ops.aten.native_dropout_backward(x, kept.view(x.shape), 1 / (1 - dropout))

    change = powers * (passed(products(seed, value.transpose(-2, -1), scores.dtype)) - sums)
    of_score = matrices((change * scale).to(query.dtype))
    of_value = torch.bmm(matrices(passed(powers).to(query.dtype)).transpose(1, 2), matrices(seed))
    of_key = torch.bmm(of_score.transpose(1, 2), matrices(query))
    of_query = torch.bmm(of_score, matrices(key))
    return of_query.view(query.shape), of_key.view(key.shape), of_value.view(value.shape), change.to(bias.dtype)


def _scores(query: Tensor, key: Tensor, bias: Tensor, scale: float) -> Tensor:
    dtype = working_dtype(query)
    return products(query, key.transpose(-2, -1), dtype) * scale + bias.to(dtype)
