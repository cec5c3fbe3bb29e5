"""Products of expanded matrices, of which rows, columns or terms are one element of memory: tensor cores have no tile of them."""

from itertools import product

import bascule.runtime.modules.grouped_products  # noqa: F401  (for its operator)
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from tests.lowering.triton.kernels.test_contractions import check, matrices
from tests.lowering.triton.kernels.test_contractions import run as computed
from tests.targets.test_cuda_pipelines import run

M, K, N = 2048, 512, 1024
READERS = {
    "one": lambda x, w, v: F.relu(x @ w),
    "joined": lambda x, w, v: F.silu(x @ w) * (x @ v),
    "scaled": lambda x, w, v: (x @ w) * 0.5 + 1,
}


def expanded(rows, columns, dtype=torch.bfloat16):
    """A matrix in memory, seen as one of `rows` by `columns`: each a size and whether it is repeated."""
    sizes = [1 if repeated else size for size, repeated in (rows, columns)]
    return torch.empty(sizes, dtype=dtype, device="cuda").expand(rows[0], columns[0])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("repeated", list(product([False, True], repeat=4)), ids=str)
def test_a_kernel_of_many_rows_has_tensor_cores(repeated, reader):
    """Others are calls, but for those of one row or column, which are read as fast as the matrix is."""
    row, left, right, column = repeated
    with FakeTensorMode():
        x, w, v = expanded((M, row), (K, left)), expanded((K, right), (N, column)), expanded((K, False), (N, False))
        text = run(READERS[reader], [x, w, v])
    multiplied = "dot = true" in text
    assert multiplied == (reader == "joined" and not row and not left if any(repeated) else True)
    kernels = [line for line in text.splitlines() if "schedule = #bascule" in line and 'kind = "row"' in line]
    assert (row or column) or not kernels


def test_integers_of_an_expanded_matrix():
    with FakeTensorMode():
        x, w = (torch.empty(1, K, dtype=torch.int8, device="cuda").expand(n, K) for n in (M, N))
        text = run(lambda x, w: torch._int_mm(x, w.t()).float() * 0.5, [x, w.clone()])
    assert "call @aten._int_mm" in text


def test_groups_of_an_expanded_matrix():
    with FakeTensorMode():
        x, w = torch.empty(1, K, device="cuda").expand(M, K), torch.empty(4, K, N, device="cuda")
        ends = torch.empty(4, dtype=torch.int32, device="cuda")
        text = run(lambda x, w, ends: F.relu(torch.ops.bascule.grouped_mm(x, w, ends)), [x, w, ends])
    assert "a matrix is expanded" in text and "call @bascule.grouped_mm" in text


EXPANDED = {
    "rows": (lambda x, w: F.relu(x[:1].expand(40, -1) @ w.t()), (1, 64), (72, 64)),
    "columns": (lambda x, w: F.gelu(x @ w[:, :1].expand(-1, 72)) + x[:, :1], (40, 64), (64, 72)),
    "both": (
        lambda x, w: torch.addmm(w[0], x[:1].expand(40, -1), w[:1].t().expand(-1, 64), alpha=0.5),
        (1, 64),
        (64, 64),
    ),
    "terms": (lambda x, w: F.relu(x[:, :1].expand(-1, 64) @ w), (40, 64), (64, 72)),
    "of batches": (lambda x, w: torch.bmm(x[:1].expand(3, 40, 64), w.transpose(1, 2)), (1, 1, 64), (3, 72, 64)),
    "all": (lambda x, w: torch.outer(x[0, :1].expand(9), w[0]), (1, 1), (1, 20)),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_results(name):
    function, *sizes = EXPANDED[name]
    found, wanted = computed(function, *matrices(torch.bfloat16, *sizes))
    assert found.stride() == wanted.stride()
    check(found, wanted, torch.bfloat16, 128)
