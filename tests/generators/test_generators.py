"""A few cases of each generator, of fixed seeds. Twice as many: `make test-all`, by `BASCULE_GENERATORS_PART`; more of them: `make soak`."""

from random import Random

import pytest

from tests.generators.cases import check, generators
from tests.parts import chosen

SEEDS = chosen("GENERATORS", range(6), 2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", generators())
def test_it_does_what_eager_does(name, seed):
    finding = check(generators()[name](Random(seed)))
    assert finding is None or finding.pytorch, finding.text()
