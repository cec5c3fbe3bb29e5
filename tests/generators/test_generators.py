"""A few cases of each generator, of fixed seeds. More of them: `make soak`."""

from random import Random

import pytest

from tests.generators.cases import check, generators

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", generators())
def test_it_does_what_eager_does(name, seed):
    finding = check(generators()[name](Random(seed)))
    assert finding is None or finding.pytorch, finding.text()
