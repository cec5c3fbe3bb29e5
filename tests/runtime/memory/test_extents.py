"""Whether elements share places in memory, against all places listed."""

from itertools import product
from random import Random

import pytest
from bascule.runtime.memory.extents import extent, meet, overlaps_itself


def places(sizes, strides, first=0):
    return [first + sum(i * s for i, s in zip(index, strides)) for index in product(*map(range, sizes))]


def drawn(random):
    dims = random.randint(0, 4)
    return [random.choice([0, 1, 2, 2, 3, 3, 4]) for _ in range(dims)], [random.randint(0, 9) for _ in range(dims)]


@pytest.mark.parametrize("seed", range(4))
def test_of_small_tensors(seed):
    random = Random(seed)
    for _ in range(500):
        one, other, distance = drawn(random), drawn(random), random.randint(-20, 20)
        assert extent(*one) == max((place + 1 for place in places(*one)), default=0), one
        assert overlaps_itself(*one) == (len({*places(*one)}) < len(places(*one))), one
        assert meet(*one, *other, distance) == (not {*places(*one)}.isdisjoint(places(*other, distance))), (one, other)


@pytest.mark.parametrize(
    "layout, shared",
    [
        (((8, 1024, 64, 64), (4194304, 4096, 64, 1)), False),
        (((1000, 1000), (999, 1)), True),
        (((100000, 3), (2, 200001)), False),
        (((100000, 3), (2, 199998)), True),
    ],
)
def test_of_large_ones(layout, shared):
    assert overlaps_itself(*layout) == shared
