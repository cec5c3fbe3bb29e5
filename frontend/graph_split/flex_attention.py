"""`flex_attention` and its gradient as tensor operators, in the forms that `fuse-attention` and `fuse-products` make kernels of: there no tensor
of scores is in memory. Elsewhere it is.

Products are of batches of matrices, their operands widened where scores are (in f64 of f64, else in f32), so that nothing is rounded that eager
does not round. The backward computes the probabilities again, from the logarithms that the forward gives. Dao, Fu, Ermon, Rudra and Re,
"FlashAttention"; Dong, Feng, Yang, Li, Guessous and He, "Flex Attention".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bascule.compat.graphs.dynamo import TransformGetItemToIndex
from bascule.compat.tensors.functorch import vmap_for_bhqkv

FEW = 16  # rows that read the same keys, up to which these are one matrix
LOG_2, LOG2_E = math.log(2), 1 / math.log(2)


@dataclass(frozen=True)
class Change:
    """A function of indices of scores (batch, head, row, key; for a score the score first), and the tensors that it captures."""

    function: Callable[..., Any]
    captured: Sequence[Any]

    def __call__(self, *args: Tensor, out_dims: Any = 0) -> Any:
        """Of vectors of indices, one each, and of scores and gradients of all of them: batches x heads x rows x keys."""
        scores = [0 for x in args if x.ndim == 4]
        prefix, suffix = tuple(scores[:1]), (*scores[1:], *(None for _ in self.captured))
        with TransformGetItemToIndex():
            function = vmap_for_bhqkv(self.function, prefix=prefix, suffix=suffix, out_dims=out_dims)
            return function(*args, *self.captured)


def changed(scores: Tensor, indices: Sequence[Tensor], score: Change, mask: Change) -> Tensor:
    """The scores of `indices` by the function `score`, -inf where `mask` does not hold."""
    return torch.where(mask(*indices), score(scores, *indices), -math.inf)


def working_dtype(x: Tensor) -> torch.dtype:
    """The dtype of scores of queries `x`."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def attention(
    query: Tensor, key: Tensor, value: Tensor, score: Change, mask: Change, scale: float, hidden: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The result of `flex_attention`, the logarithm to base 2 of the sum of powers of a row, and the largest score, divided by log(2). `hidden`
    hides keys beside `mask`."""
    batch, heads, rows, _ = query.shape
    few = key.shape[1] if reads_alike(query, key) else heads
    together = query.reshape(batch, few, heads // few * rows, query.shape[3])
    key, value = (_of_each_head(x, together) for x in (key, value))
    scores = _scores(together, key, scale)
    scores = changed(scores.view(batch, heads, rows, key.shape[2]), _indices(query, key), score, mask)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    weights, largest, total = softmax(scores.view(batch * few, heads // few * rows, key.shape[2]))
    out = torch.bmm(weights.to(query.dtype), matrices(value).to(query.dtype))
    logarithm = torch.where(largest.isinf(), largest, largest + total.log())
    sizes = query.shape[:3]
    return out.view(*sizes, value.shape[3]), (logarithm / LOG_2).view(sizes), (largest / LOG_2).view(sizes)


def softmax(scores: Tensor, change: Callable[[Tensor], Tensor] = lambda x: x) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row the weights, 0 in one that is empty, the largest score, and the sum of powers about that. `change`: of the weights."""
    largest = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - largest)
    total = powers.sum(-1, keepdim=True)
    return torch.where(largest == -math.inf, 0.0, change(powers / total)), largest, total


def reads_alike(query: Tensor, key: Tensor) -> bool:
    """Whether the rows of all heads that read the same keys are one matrix: where they are few, as one query over a long cache."""
    (heads, rows), few = query.shape[1:3], key.shape[1]
    return isinstance(rows, int) and few < heads and heads // few * rows <= FEW


def gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logarithm: Tensor,
    seeds: tuple[Tensor | None, Tensor | None],
    score: Change,
    joint: Change,
    mask: Change,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor | None, ...]]:
    """The gradients of query, key and value, and of what `score` captures, where it has one: of `seeds`, those of the result and of its
    `logarithm`. `joint` is `score` with its gradients: it takes that of the result after the indices, and returns those of the score, of the
    four indices, and of what is captured."""
    batch, heads = query.shape[:2]
    keys, values = (_of_each_head(x, query) for x in (key, value))
    indices, dtype = _indices(query, keys), query.dtype
    scores = _scores(query, keys, scale)
    # Of an empty row all powers are 0. What the mask hides is chosen away at last, whatever it is.
    powers = torch.exp2(
        score(scores, *indices) * LOG2_E - logarithm.masked_fill(logarithm == -math.inf, math.inf).unsqueeze(-1)
    )
    shown = mask(*indices)
    seed = torch.zeros_like(out) if seeds[0] is None else seeds[0]
    sums = row_sums(out, seed, seeds[1], scores.dtype)
    change = products(seed, values.transpose(-2, -1), scores.dtype)
    counted = tuple(None for _ in (*indices, *joint.captured))
    gradients_of = partial(joint, scores, *indices, out_dims=[0, *counted])
    # A gradient is linear in that of the result, so that the factor may come first: it costs nothing beside the difference.
    of_score = gradients_of(powers * (change * scale - sums * scale))[0]
    of_score = matrices(torch.where(shown, of_score, 0.0).to(dtype))
    weights = torch.where(shown, powers, 0.0)
    of_captured = gradients_of(weights * (change - sums))[5:]
    of_value = torch.bmm(matrices(weights.to(dtype)).transpose(1, 2), matrices(seed))
    of_key = torch.bmm(of_score.transpose(1, 2), matrices(query))
    of_query = torch.bmm(of_score, matrices(keys)).view(query.shape)
    of_key, of_value = (_of_shared_heads(x.view(batch, heads, *x.shape[1:]), key) for x in (of_key, of_value))
    captured = (None if x is None else x.to(like.dtype) for x, like in zip(of_captured, joint.captured, strict=True))
    return of_query, of_key, of_value, tuple(captured)


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    return products(query, key.transpose(-2, -1), working_dtype(query)) * scale


def products(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    """x @ y of each batch and head, computed in `dtype`."""
    return _pieces(matrices(x), matrices(y), dtype).view(*x.shape[:-1], y.shape[-1])


def _pieces(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    """x @ y of each batch, computed in `dtype`."""
    return torch.bmm(x.to(dtype), y.to(dtype))


def row_sums(out: Tensor, seed: Tensor, of_logarithm: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The sum over each row of its weights and their gradients, which lessens these."""
    sums = (out.to(dtype) * seed.to(dtype)).sum(-1, keepdim=True)
    return sums if of_logarithm is None else sums - of_logarithm.unsqueeze(-1) / LOG_2


def _indices(query: Tensor, key: Tensor) -> list[Tensor]:
    sizes = (*query.shape[:3], key.shape[2])
    return [torch.arange(size, device=query.device) for size in sizes]


def matrices(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _of_each_head(x: Tensor, query: Tensor) -> Tensor:
    """Keys or values for each batch and head of the queries: several may share one."""
    batch, heads = query.shape[:2]
    few, size = x.shape[1], x.shape[2:]
    if (batch, heads) == (x.shape[0], few):
        return x
    return x.unsqueeze(2).expand(batch, few, heads // few, *size).reshape(batch, heads, *size)


def _of_shared_heads(gradient: Tensor, like: Tensor) -> Tensor:
    """The gradient of keys or values that are `like` those of each batch and head."""
    batch, heads = gradient.shape[:2]
    few = like.shape[1]
    if heads != few:
        gradient = gradient.view(batch, few, heads // few, *gradient.shape[2:]).sum(2)
    return gradient if batch == like.shape[0] else gradient.sum(0, keepdim=True)
