"""Attention as people write it, with what it takes and, where PyTorch has it in a kernel, that."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

Change = Callable[[Tensor, Tensor, Tensor], Tensor]  # scores, rows, keys -> scores


@dataclass(frozen=True)
class Case:
    """`run` of queries, keys and values, and of a bias of rows and keys if `biased`; `library`: the same by PyTorch's kernels. `sizes`: batch,
    heads, rows, keys, elements of a head; `shared` heads of queries have one of keys. `backward`: gradients of all inputs too; `random`: no two
    backends give one result."""

    name: str
    run: Callable[..., Tensor]
    sizes: tuple[int, int, int, int, int]
    library: Callable[..., Tensor] | None = None
    biased: bool = False
    shared: int = 1
    backward: bool = False
    random: bool = False
    flex: bool = False

    def inputs(self, device: str, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
        batch, heads, rows, keys, deep = self.sizes
        few = (batch, heads // self.shared, keys, deep)
        bias = [(1, heads, rows, keys)] if self.biased else []
        made = [torch.randn(size, device=device) for size in ((batch, heads, rows, deep), few, few, *bias)]
        return [x.to(dtype).requires_grad_(self.backward) for x in made]

    def short(self, rows: int) -> "Case":
        """Of fewer rows and keys, for a CPU, on which flex_attention has no backward."""
        _, heads, many, keys, deep = self.sizes
        return replace(
            self,
            sizes=(1, min(heads, 2 * self.shared), min(many, rows), min(keys, rows), deep),
            backward=self.backward and not self.flex,
        )


def by_hand(change: Change = lambda s, r, k: s) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        rows, keys = (torch.arange(n, device=q.device) for n in scores.shape[-2:])
        return torch.softmax(change(scores, rows[:, None], keys), -1) @ v

    return attention


def masked(shown: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return by_hand(lambda s, r, k: torch.where(shown(r, k), s, -torch.inf))


def by_library(shown: Callable[[Tensor, Tensor], Tensor] | None = None, **how: Any) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, keys = (torch.arange(x.shape[-2], device=q.device) for x in (q, k))
        mask = None if shown is None else shown(rows[:, None], keys)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **how)

    return attention


def biased(p: float) -> Callable[..., Tensor]:
    """T5's: no scale, a bias of positions, dropout of the weights."""

    def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return F.dropout(torch.softmax(q @ k.transpose(-1, -2) + bias, -1), p) @ v

    return attention


def biased_library(p: float) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p, scale=1.0)

    return attention


def flex(mask: Callable[..., Tensor] | None = None, score: Callable[..., Tensor] | None = None, **how: Any):
    """`flex_attention` of a mask and a score of batch, head, row and key."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        blocks = None
        if mask is not None:
            blocks = block_mask(mask, q.shape[-2], k.shape[-2], str(q.device))
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks, **how)

    return attention


_blocks: dict[Any, BlockMask] = {}


@torch.compiler.disable
def block_mask(mask: Callable[..., Tensor], rows: int, keys: int, device: str) -> BlockMask:
    asked = mask, rows, keys, device
    if asked not in _blocks:
        _blocks[asked] = create_block_mask(mask, None, None, rows, keys, device=device)
    return _blocks[asked]


def alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Slopes of heads are a tensor that the score captures."""
    heads = q.shape[1]
    slopes = torch.exp2(-8 / heads * torch.arange(1, heads + 1, device=q.device))
    return flex_attention(q, k, v, score_mod=lambda s, b, h, r, j: s + slopes[h] * (j - r))


def causal(r: Tensor, k: Tensor) -> Tensor:
    return k <= r


def window(r: Tensor, k: Tensor) -> Tensor:
    return (k <= r) & (r - k < 512)


def reversed_(r: Tensor, k: Tensor) -> Tensor:
    return 3000 - r > k


LARGE = (2, 8, 2048, 2048, 512)
LONG, SHORT, T5 = (4, 16, 4096, 4096, 128), (4, 16, 4096, 4096, 64), (16, 8, 512, 512, 64)
CASES = [
    Case("none", by_hand(), LONG, by_library()),
    Case("causal", masked(causal), LONG, by_library(is_causal=True)),
    Case("window 512", masked(window), LONG, by_library(window)),
    Case("3000 - row > key", masked(reversed_), LONG, by_library(reversed_)),
    Case("none, heads of 64", by_hand(), SHORT, by_library()),
    Case("causal, heads of 64", masked(causal), SHORT, by_library(is_causal=True)),
    Case("T5, bias", biased(0.0), T5, biased_library(0.0), True),
    Case("causal, training", masked(causal), LONG, by_library(is_causal=True), backward=True),
    Case("causal, heads of 64, training", masked(causal), SHORT, by_library(is_causal=True), backward=True),
    Case("T5, bias, training", biased(0.0), T5, biased_library(0.0), True, backward=True),
    Case(
        "T5, bias, dropout, training",
        biased(0.1),
        T5,
        biased_library(0.1),
        True,
        backward=True,
        random=True,
    ),
    Case("flex, causal", flex(lambda b, h, r, k: causal(r, k)), LONG, backward=True, flex=True),
    Case("flex, window 512", flex(lambda b, h, r, k: window(r, k)), LONG, backward=True, flex=True),
    Case(
        "flex, documents of 700",
        flex(lambda b, h, r, k: (r // 700 == k // 700) & (k <= r)),
        LONG,
        backward=True,
        flex=True,
    ),
    Case(
        "flex, softcap",
        flex(score=lambda s, b, h, r, k: 20 * torch.tanh(s / 20)),
        LONG,
        backward=True,
        flex=True,
    ),
    Case("flex, ALiBi", alibi, LONG, backward=True, flex=True),
    Case("flex, causal, heads of 64", flex(lambda b, h, r, k: causal(r, k)), SHORT, backward=True, flex=True),
    Case("flex, causal, heads of 512", flex(lambda b, h, r, k: causal(r, k)), LARGE, backward=True, flex=True),
    Case("flex, one query", flex(enable_gqa=True), (8, 32, 1, 8192, 128), shared=4, flex=True),
]
