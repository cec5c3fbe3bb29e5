"""Reductions over as many elements as a call gives, which kernels take in chunks: against eager in f64, of more and of fewer elements."""

import pytest
import torch
from torch.nn import functional as F

import bascule
from bascule.reporting.counters import reset_counters

LONG, SHORT = (1 << 12, 640), [(33, 17), (1, 5), (700, 3)]
CASES = {
    "sum of squares": (lambda x: x.square().sum(), LONG, SHORT),
    "largest": (torch.amax, LONG, SHORT),
    "columns": (lambda x: x.sum(0), (9000, 300), [(31, 300), (2, 300)]),
    "variance": (lambda x: torch.var_mean(x, dim=(0, 2)), (256, 8, 1100), [(40, 8, 30), (3, 8, 1)]),
    "batch norm": (
        lambda x: F.batch_norm(x, None, None, training=True).relu(),
        (80, 8, 64, 50),
        [(3, 8, 50, 7), (16, 8, 2, 3)],
    ),
    "long rows": (lambda x: F.layer_norm(x, x.shape[-1:]), (3, 700000), [(3, 2000), (16, 30)]),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["rows", "all"])
@pytest.mark.parametrize("case", CASES)
def test_chunks(case, dynamic):
    """Compiled for many elements, called with few."""
    function, first, others = CASES[case]
    torch._dynamo.reset()
    reset_counters()
    compiled = torch.compile(
        function, backend="bascule", dynamic=dynamic, options={"on_error": "raise", "target": "interpret"}
    )
    for number, size in enumerate((first, *others)):
        x = torch.randn(size, generator=torch.Generator().manual_seed(number)) * 3 + 100
        if dynamic is None and size[0] > 1:
            torch._dynamo.mark_dynamic(x, 0)
        found, wanted = (y if isinstance(y, tuple) else (y,) for y in (compiled(x), function(x.double())))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=2e-6, atol=2e-5, equal_nan=True)
        if number == 0:
            assert bascule.counters()["kernels"]["launches"] > 1  # of partial results, and of these
