"""The numbers of `bascule.random`, over whatever arithmetic an interpreter or a lowering brings.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11) makes four words of 32 bits of

    key      = (low word of the seed, high word of the seed)
    counter  = (low word of n, high word of n, 0, 0)

A number of 32 bits takes one word, one of 64 bits takes two: n = position div 4 and word position mod 4, or n = position div 2 and words
2 * (position mod 2), the low half, and the one after it. So `NUMBERS` neighbours share a counter, wherever they are computed:

    bits     the word or the two words
    uniform  f32: word >> 8, / 2**24                      f64: words >> 11, / 2**53
    normal   Box and Muller's sqrt(-2 log u) * cos(2 pi v), and at odd positions sqrt(-2 log u) * sin(2 pi v), of the same u and v:
             f32: the two words of a pair of positions    f64: the two halves of a counter
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from ..mlir import ir

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, as fractions of 2**32
NUMBERS = {32: 4, 64: 2}  # bits of a number -> numbers of a counter
DIGITS = {32: 24, 64: 53}  # bits of a float -> those of its significand

V = TypeVar("V")


class Words(ABC, Generic[V]):
    """Arithmetic on words of 32 bits, modulo 2**32."""

    @abstractmethod
    def add(self, x: V, number: int) -> V: ...

    @abstractmethod
    def xor(self, x: V, y: V) -> V: ...

    @abstractmethod
    def product(self, x: V, number: int) -> tuple[V, V]:
        """The low and the high word of an unsigned product."""

    @abstractmethod
    def joined(self, low: V, high: V) -> V:
        """The number of 64 bits of two words."""

    @abstractmethod
    def quarter_back(self, x: V, width: int) -> V:
        """A number of `width` bits less a quarter of 2**width."""


class Floats(ABC, Generic[V]):
    """Arithmetic on integers and floats by the names of `arith` and `math`; a Python number among the operands is a constant."""

    @abstractmethod
    def op(self, name: str, *operands: V | float) -> V: ...

    @abstractmethod
    def convert(self, name: str, x: V, type_: ir.Type) -> V: ...


def philox(a: Words[V], counter: Sequence[V], key: Sequence[V]) -> list[V]:
    """Four words from a counter of four and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for round_ in range(ROUNDS):
        if round_:
            k0, k1 = a.add(k0, KEY_STEPS[0]), a.add(k1, KEY_STEPS[1])
        low0, high0 = a.product(c0, MULTIPLIERS[0])
        low1, high1 = a.product(c2, MULTIPLIERS[1])
        c0, c2 = a.xor(a.xor(high1, c1), k0), a.xor(a.xor(high0, c3), k1)
        c1, c3 = low1, low0
    return [c0, c1, c2, c3]


def drawn(a: Words[V], distribution: str, width: int, words: Sequence[V]) -> list[tuple[V, ...]]:
    """Makes the numbers of one counter, see `number`, from its words: integers of `width` bits, for a normal number two."""
    units = list(words) if width == 32 else [a.joined(*words[:2]), a.joined(*words[2:])]
    if distribution != "normal":
        return [(unit,) for unit in units]
    pairs = zip(units[::2], units[1::2])
    return [turned for u, v in pairs for turned in ((u, v), (u, a.quarter_back(v, width)))]


def number(a: Floats[V], distribution: str, type_: ir.Type, bits: Sequence[V]) -> V:
    """The number of `type_` of what `drawn` gave."""
    if distribution == "bits":
        return bits[0]
    if distribution == "uniform":
        return _fraction(a, bits[0], type_)
    width, (u, v) = type_.width, bits
    whole = a.convert("arith.sitofp", a.op("arith.shrui", u, 1), type_)  # below 2**(width - 1)
    u = a.op("arith.mulf", a.op("arith.addf", whole, 1.0), 2.0 ** (1 - width))  # in (0, 1]
    radius = a.op("math.sqrt", a.op("arith.mulf", a.op("math.log", u), -2.0))
    angle = a.op("arith.mulf", _fraction(a, v, type_), 2.0 * math.pi)
    return a.op("arith.mulf", radius, a.op("math.cos", angle))


def _fraction(a: Floats[V], bits: V, type_: ir.Type) -> V:
    """[0, 1) from the upper bits, as many as the type holds exactly."""
    digits = DIGITS[type_.width]
    upper = a.convert("arith.sitofp", a.op("arith.shrui", bits, type_.width - digits), type_)
    return a.op("arith.mulf", upper, 2.0**-digits)
