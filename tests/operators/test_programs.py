"""Programs of many operators, see `programs`: a few of those of fixed seeds."""

import pytest

from tests.operators.programs import differences, program


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("seed", range(24))
def test_it_gives_what_eager_gives(seed, target):
    made = program(seed)
    assert not differences(made, target), made.source


@pytest.mark.parametrize("seed", range(12))
def test_it_gives_what_eager_gives_where_a_size_is_0(seed):
    made = program(seed, empty=True)
    assert not differences(made, ["cpu", "interpret"][seed % 2]), made.source
