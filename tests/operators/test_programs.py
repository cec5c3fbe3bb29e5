"""Programs of many operators, see `programs`: a few of those of fixed seeds."""

import pytest

from .programs import differences, program


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("seed", range(24))
def test_it_gives_what_eager_gives(seed, target):
    made = program(seed)
    assert not differences(made, target), made.source
