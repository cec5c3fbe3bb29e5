"""Remainders of a float that changes from call to call."""

import pytest
import torch

from tests.frontend.against_eager import check

NUMBERS = (1.0, 2.5, 4.0, 3.25, -0.75)
REMAINDERS = {
    "by a number": lambda x, k: x * (k % 1.5),
    "of a number": lambda x, k: x + 7.5 % k,
    "by a negative number": lambda x, k: x * (k % -1.5),
    "of a negative one": lambda x, k: x - (-k % 0.6),
    "of two": lambda x, k: x * ((k % 2.0) * (k % 3.0) + 1),
    "of a product with a size": lambda x, k: x * ((x.shape[0] * k) % 2.0),
}


@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders(name):
    x = torch.randn(3, requires_grad=True)
    check(REMAINDERS[name], *([x, k] for k in NUMBERS))
