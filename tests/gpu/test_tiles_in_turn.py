"""Contractions of more tiles than a GPU has multiprocessors: what the interpreter's tests ask, of longer sums and other numbers of tiles too."""

import pytest
import torch
from torch.nn import functional as F

from tests.lowering.triton.kernels import test_contractions as dense
from tests.lowering.triton.kernels import test_grouped_products as grouped
from tests.lowering.triton.kernels.test_contractions import matrices
from tests.lowering.triton.kernels.test_tiles_in_turn import COLUMNS, ENDS, FUSED, ROWS, SUMMED, one_more

BF16 = torch.bfloat16


def on_gpu(*sizes):
    return [x.cuda() for x in matrices(BF16, *sizes)]


@pytest.mark.parametrize("name", FUSED)
def test_products(name):
    function, sizes = FUSED[name]
    found, wanted = dense.run(function, *on_gpu(*sizes))
    dense.check(found, wanted, BF16, 64 * SUMMED)


@pytest.mark.parametrize(
    "sizes", [(8192, 2048, 5632), (4096, 136, 4104), (2500, 4096, 9000), (9000, 2560, 2568)], ids=str
)
def test_sizes(sizes):
    m, k, n = sizes
    found, wanted = dense.run(lambda x, w: F.relu(x @ w), *on_gpu((m, k), (k, n)))
    dense.check(found, wanted, BF16, k)


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups(ends):
    x, w = on_gpu((ROWS, SUMMED), (4, COLUMNS, SUMMED))
    found, wanted = grouped.run(one_more, x, w, grouped.offsets(*ends).cuda())
    grouped.check(found, wanted, BF16, SUMMED)


@pytest.mark.parametrize("groups", [2, 30, 40, 200])
def test_many_groups(groups):
    rows = 8000
    x, w, v = on_gpu((rows, 264), (groups, 1032, 264), (groups, 1032, 264))
    ends = torch.randint(0, rows + 1, (groups,), generator=torch.Generator().manual_seed(2)).sort()[0].int().cuda()
    found, wanted = grouped.run(
        lambda x, w, v, o: grouped.product(x, w.transpose(1, 2), o) * grouped.product(x, v.transpose(1, 2), o),
        x,
        w,
        v,
        ends,
    )
    grouped.check(found, wanted, BF16, 264, scale=256)
