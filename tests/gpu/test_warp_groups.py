"""Contractions in which a warp group loads for two that multiply: what the interpreter's tests ask, longer sums and other numbers of tiles."""

import pytest
import torch
from bascule.dialect.scheduling.gpu import contractions
from torch.nn import functional as F

from tests.gpu.test_tiles_in_turn import on_gpu
from tests.lowering.triton.kernels import test_contractions as dense
from tests.lowering.triton.kernels.test_tiles_in_turn import SUMMED
from tests.lowering.triton.kernels.test_warp_groups import CASES


@pytest.fixture(autouse=True)
def all_that_can(monkeypatch):
    monkeypatch.setattr(contractions, "TURNS", 1)
    monkeypatch.setattr(contractions, "STEPS", 1 << 20)
    monkeypatch.setattr(contractions, "_reads_more", lambda domain: False)


@pytest.mark.parametrize("name", CASES)
def test_products(name):
    function, sizes = CASES[name]
    found, wanted = dense.run(function, *on_gpu(*sizes))
    dense.check(found, wanted, torch.bfloat16, 64 * SUMMED)


@pytest.mark.parametrize(
    "sizes", [(8192, 2048, 5632), (4096, 136, 4104), (2500, 4096, 9000), (16384, 768, 4096), (65536, 264, 264)], ids=str
)
def test_sizes(sizes):
    m, k, n = sizes
    found, wanted = dense.run(lambda x, w: F.relu(x @ w), *on_gpu((m, k), (k, n)))
    dense.check(found, wanted, torch.bfloat16, k)


def test_many_times():
    """The groups wait for each other in another order each time."""
    x, w = on_gpu((4096, 328), (328, 8200))
    function = torch.compile(lambda x, w: F.gelu(x @ w), backend="bascule", options={"on_error": "raise"})
    first = function(x, w)
    wanted = F.gelu(x.double() @ w.double())
    assert (first.double() - wanted).abs().max() <= 2**-8 * wanted.abs().max()
    assert all(torch.equal(function(x, w), first) for _ in range(100))
