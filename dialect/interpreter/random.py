"""`bascule.random` in int64 arithmetic: Philox4x32-10 (Salmon et al., SC'11) and the distributions made of its words.

Key: (low, high) 32 bits of the seed. Counter: (low, high) 32 bits of the offset, then two zeros.
"""

import math

import torch

from .frame import rule
from .values import dtype_of

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
LOW = 0xFFFFFFFF


def _high_low(multiplier: int, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and low 32 bits of a product of two 32-bit numbers, from products that int64 holds."""
    low = multiplier * (word & 0xFFFF)
    high = multiplier * (word >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def philox(seed: torch.Tensor, offset: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The four words (int64 tensors in [0, 2**32)) at counter `offset` under key `seed`, both int64."""
    seed, offset = torch.broadcast_tensors(seed, offset)
    key = [seed & LOW, (seed >> 32) & LOW]
    words = [offset & LOW, (offset >> 32) & LOW, torch.zeros_like(offset), torch.zeros_like(offset)]
    for _ in range(ROUNDS):
        high0, low0 = _high_low(MULTIPLIERS[0], words[0])
        high1, low1 = _high_low(MULTIPLIERS[1], words[2])
        words = [high1 ^ words[1] ^ key[0], low1, high0 ^ words[3] ^ key[1], low0]
        key = [(k + step) & LOW for k, step in zip(key, KEY_STEPS)]
    return tuple(words)


def _bits(words: tuple[torch.Tensor, ...]) -> dict[torch.dtype, torch.Tensor]:
    return {torch.int32: words[0].to(torch.int32), torch.int64: words[0] | (words[1] << 32)}


def _fraction(low: torch.Tensor, high: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A multiple of 2**-24 (f32, from `low`) or 2**-53 (f64) in [0, 1)."""
    if dtype == torch.float32:
        return (low >> 8).to(dtype) * 2.0**-24
    return ((high << 21) | (low >> 11)).to(dtype) * 2.0**-53


def _uniform(words: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
    return _fraction(words[0], words[1], dtype)


def _normal(words: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
    """Box-Muller: the radius from 1 - u, which is not zero."""
    first, second = (words[:2], words[2:]) if dtype == torch.float64 else ((words[0], words[0]), (words[1], words[1]))
    radius = torch.sqrt(-2 * torch.log(1 - _fraction(*first, dtype)))
    return radius * torch.cos(2 * math.pi * _fraction(*second, dtype))


@rule("bascule.random")
def random(frame, op, operands, scope):
    dtype, distribution = dtype_of(op.results[0].type), op.attributes["distribution"].value
    words = philox(*operands)
    if distribution == "bits":
        return [_bits(words)[dtype]]
    return [{"uniform": _uniform, "normal": _normal}[distribution](words, dtype)]
