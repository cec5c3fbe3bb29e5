"""Which numbers `bascule.random` gives: Philox's published words, the word of each position, two normal numbers of a pair."""

import math

import pytest
import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.interpreter.random import words
from bascule.dialect.ir import context
from bascule.dialect.ir.philox import Words, philox
from bascule.dialect.mlir import ir

LOW = 0xFFFFFFFF


class Integers(Words[int]):
    """Python's own."""

    def add(self, x, number):
        return (x + number) & LOW

    def xor(self, x, y):
        return x ^ y

    def product(self, x, number):
        return x * number & LOW, x * number >> 32

    def joined(self, low, high):
        return high << 32 | low

    def quarter_back(self, x, width):
        return (x - (1 << (width - 2))) % (1 << width)


def test_the_published_words():
    """The known answers of philox4x32-10 that Random123 publishes."""
    known = {
        (0, 0, 0, 0, 0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        (LOW,) * 6: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0): (
            0xD16CFE09,
            0x94FDCCEB,
            0x5001E420,
            0x24126EA1,
        ),
    }
    for given, expected in known.items():
        assert tuple(philox(Integers(), given[:4], given[4:])) == expected


SEEDS = (0, 1, -1, 0x1234567890ABCDEF, -(2**63))
COUNTERS = (0, 1, 2**31 - 1, 2**32, 2**32 + 5, 2**61)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_interpreters_words(seed):
    for counter in COUNTERS:
        expected = philox(Integers(), [counter & LOW, counter >> 32, 0, 0], [seed & LOW, seed >> 32 & LOW])
        assert [int(w) for w in words(torch.tensor(seed), torch.tensor(counter))] == expected


def numbers(distribution: str, type_: str, seed: int, first: int, count: int = 8) -> torch.Tensor:
    """Numbers `first`, ... of a stream."""
    text = f"""
    func.func @main() -> tensor<{count}x{type_}> attributes {{bascule.graph}} {{
      %0 = "bascule.compute"() ({{
      ^bb0(%i: index):
        %seed = arith.constant {seed} : i64
        %at = affine.apply affine_map<(d0) -> (d0 + {first})>(%i)
        %r = "bascule.random"(%seed, %at) {{distribution = "{distribution}"}} : (i64, index) -> {type_}
        "bascule.yield"(%r) : ({type_}) -> ()
      }}) {{ranges = affine_map<() -> ({count})>}} : () -> tensor<{count}x{type_}>
      return %0 : tensor<{count}x{type_}>
    }}"""
    (result,) = interpret(ir.Module.parse(text, context()), [])
    return result


def word(seed: int, n: int) -> int:
    """Word number `n` of a stream, counter after counter."""
    return int(words(torch.tensor(seed), torch.tensor(n // 4))[n % 4])


FIRST = (0, 3, 2**32 - 2, 2**35 + 1)


@pytest.mark.parametrize("first", FIRST)
def test_each_position_has_words_of_its_own(first):
    seed, places = 77, range(first, first + 8)
    ones = [word(seed, p) for p in places]
    twos = [word(seed, 2 * p) | word(seed, 2 * p + 1) << 32 for p in places]
    assert [x % 2**32 for x in numbers("bits", "i32", seed, first).tolist()] == ones
    assert [x % 2**64 for x in numbers("bits", "i64", seed, first).tolist()] == twos
    assert numbers("uniform", "f32", seed, first).tolist() == [(w >> 8) / 2**24 for w in ones]
    assert numbers("uniform", "f64", seed, first).tolist() == [(w >> 11) / 2**53 for w in twos]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_normal_numbers_are_the_two_of_a_pair(first, type_):
    seed, expected = -5, []
    for p in range(first, first + 8):
        pair, width = p - p % 2, 32 if type_ == "f32" else 64
        if width == 32:
            u, v = word(seed, pair), word(seed, pair + 1)
        else:
            u, v = (word(seed, 2 * q) | word(seed, 2 * q + 1) << 32 for q in (pair, pair + 1))
        radius = math.sqrt(-2 * math.log(((u >> 1) + 1) / 2 ** (width - 1)))
        angle = 2 * math.pi * v / 2**width
        expected.append(radius * (math.sin(angle) if p % 2 else math.cos(angle)))
    tolerance = 2e-6 if type_ == "f32" else 1e-14
    got = numbers("normal", type_, seed, first).double()
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "distribution, type_", [("uniform", "f32"), ("uniform", "f64"), ("normal", "f32"), ("normal", "f64")]
)
def test_statistics(distribution, type_):
    count = 40000
    x = numbers(distribution, type_, 3, 2, count).double()
    mean, deviation = (0.5, 12**-0.5) if distribution == "uniform" else (0.0, 1.0)
    assert abs(x.mean() - mean) < 5 * deviation / count**0.5
    assert abs(x.std() / deviation - 1) < 0.03
    normed = (x - mean) / deviation
    for distance in (1, 2, 3, 4):  # neighbours share a counter, and pairs of normal numbers their radius
        for a, b in ((normed, normed), (normed**2, normed**2)):
            assert abs(torch.corrcoef(torch.stack([a[:-distance], b[distance:]]))[0, 1]) < 5 / count**0.5
