"""`bascule.random` in int64 arithmetic: Philox4x32-10 (Salmon et al., SC'11) and the distributions made of its words.

Key: (low, high) 32 bits of the seed. Counter: (low, high) 32 bits of the offset, then two zeros. Numbers of 32 bits are
words 0 and 1, numbers of 64 bits (for i64 and f64) words (1, 0) and (3, 2), the high half first: as `expand-random` has it.
"""

import math

import torch

from .frame import rule
from .integers import shift_right_unsigned
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


def _fraction(bits: torch.Tensor, width: int, dtype: torch.dtype) -> torch.Tensor:
    """[0, 1) from the upper bits of a number of `width` bits, as many as the dtype holds exactly."""
    digits = 53 if dtype == torch.float64 else 24
    upper = shift_right_unsigned(bits, torch.tensor(width - digits))
    return upper.to(dtype) * 2.0**-digits


def _normal(bits: torch.Tensor, turn: torch.Tensor, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Box-Muller: sqrt(-2 log u) * cos(2 pi v), u in (0, 1] from `bits`, v in [0, 1) from `turn`."""
    u = (shift_right_unsigned(bits, torch.tensor(1)).to(dtype) + 1) * 2.0 ** (1 - width)
    return torch.sqrt(-2 * torch.log(u)) * torch.cos(2 * math.pi * _fraction(turn, width, dtype))


@rule("bascule.random")
def random(frame, op, operands, scope):
    dtype, distribution = dtype_of(op.results[0].type), op.attributes["distribution"].value
    words = philox(*operands)
    width = 64 if dtype.itemsize == 8 else 32
    numbers = [words[0] | (words[1] << 32), words[2] | (words[3] << 32)] if width == 64 else words
    if distribution == "bits":
        return [numbers[0].to(dtype)]
    if distribution == "uniform":
        return [_fraction(numbers[0], width, dtype)]
    return [_normal(numbers[0], numbers[1], width, dtype)]
