"""Fractional max pooling with given numbers against eager: values, places and gradients."""

import pytest
import torch
from bascule.dialect.errors import UnsupportedError

from tests.frontend.checking import aten, check, convert

CASES = [
    (2, (2, 3, 17, 11), (3, 2), (6, 5)),
    (2, (3, 9, 9), (2, 2), (1, 8)),  # one window in a dimension, and no batch
    (2, (1, 2, 5, 6), (5, 2), (1, 5)),
    (3, (2, 2, 9, 8, 7), (2, 3, 2), (4, 3, 3)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rank", "sizes", "window", "counts"), CASES)
def test_against_eager(rank, sizes, window, counts, dtype):
    pool = getattr(aten, f"fractional_max_pool{rank}d").default
    backward = getattr(aten, f"fractional_max_pool{rank}d_backward").default
    x = torch.randn(sizes, dtype=dtype)
    batch = sizes[:-rank] if len(sizes) == rank + 2 else (1, *sizes[:-rank])
    samples = torch.rand(*batch, rank, dtype=dtype)
    check(lambda x, u: pool(x, window, counts, u), x, samples)
    out, indices = pool(x, window, counts, samples)
    check(lambda g, x, i: backward(g, x, window, counts, i), torch.randn_like(out), x, indices)


def test_what_rounds_places_goes_to_aten():
    x, samples = torch.randn(1, 2, 9, 9).bfloat16(), torch.rand(1, 2, 2).bfloat16()
    with pytest.raises(UnsupportedError, match="which rounds the places of windows"):
        convert(lambda x, u: aten.fractional_max_pool2d.default(x, (2, 2), (4, 4), u), x, samples)
