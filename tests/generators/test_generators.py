"""A few cases of each generator, of fixed seeds. Twice as many: `make test-all`, by `BASCULE_GENERATORS_PART`; more of them: `make soak`."""

import os
from random import Random

import pytest

from tests.generators.cases import check, generators

SEEDS = range(6 if os.environ.get("BASCULE_GENERATORS_PART") else 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", generators())
def test_it_does_what_eager_does(name, seed):
    finding = check(generators()[name](Random(seed)))
    assert finding is None or finding.pytorch, finding.text()
