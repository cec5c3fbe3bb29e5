"""Programs of many operators, see `programs`: a few of those of fixed seeds. `make test-all` runs twice as many, by `BASCULE_OPERATORS_PART`."""

import pytest

from tests.operators.programs import differences, program
from tests.parts import chosen

# The interpreter takes minutes for a few of the others: a reduction of a size that changes has 2048 lanes, however few are in force.
CASES = [*((seed, "cpu") for seed in range(24)), *((seed, "interpret") for seed in range(20))]


@pytest.mark.parametrize(("seed", "target"), chosen("OPERATORS", CASES, 2, part=2))
def test_it_gives_what_eager_gives(seed, target):
    made = program(seed)
    assert not differences(made, target), made.source


@pytest.mark.parametrize("seed", range(12))
def test_it_gives_what_eager_gives_where_a_size_is_0(seed):
    made = program(seed, empty=True)
    assert not differences(made, ["cpu", "interpret"][seed % 2]), made.source
