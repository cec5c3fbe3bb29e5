"""Contractions of more tiles than there are multiprocessors, of which a program takes one after the other: in the interpreter, and as code."""

import pytest
import torch
from bascule.dialect.scheduling.gpu import contractions
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

from tests.lowering.triton.kernels import test_contractions as dense
from tests.lowering.triton.kernels import test_grouped_products as grouped
from tests.lowering.triton.kernels.test_contractions import matrices

ROWS, SUMMED, COLUMNS = (
    2040,
    72,
    2312,
)  # 16 tiles by 10, all of which a multiprocessor has one or two, none of them whole
BF16 = torch.bfloat16


@pytest.fixture
def kernels(monkeypatch):
    """Those that the interpreter runs."""
    found, real = [], plans.run_kernel
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, arguments: (found.append(kernel), real(kernel, arguments)))
    return found


def is_in_turn(kernel):
    return "tt.flatten" in kernel.ttir and f"({132 * max(1, kernel.resident)})" in str(kernel.grid)


FUSED = {
    "product": (torch.matmul, [(ROWS, SUMMED), (SUMMED, COLUMNS)]),
    "transposed": (lambda x, w: x @ w.t(), [(ROWS, SUMMED), (COLUMNS, SUMMED)]),
    "layer, relu": (lambda x, w, b: F.relu(F.linear(x, w, b)), [(ROWS, SUMMED), (COLUMNS, SUMMED), (COLUMNS,)]),
    "a residual sum": (lambda x, w, r: x @ w + r, [(ROWS, SUMMED), (SUMMED, COLUMNS), (ROWS, COLUMNS)]),
    "two joined": (lambda x, w, v: (x @ w) * (x @ v), [(ROWS, SUMMED), (SUMMED, COLUMNS), (SUMMED, COLUMNS)]),
    "a batch": (torch.bmm, [(3, 700, SUMMED), (3, SUMMED, COLUMNS)]),
}


@pytest.mark.parametrize("name", FUSED)
def test_products(name, kernels):
    function, sizes = FUSED[name]
    found, wanted = dense.run(function, *matrices(BF16, *sizes))
    dense.check(found, wanted, BF16, 64 * SUMMED)
    assert any(map(is_in_turn, kernels))


ENDS = {
    "ragged": (700, 701, 701, ROWS),
    "rows after the last": (0, 130, 600, 1500),
    "no rows": (0, 0, 0, 0),
    "all in the last": (0, 0, 0, ROWS),
    "whole tiles": (512, 1024, 1536, 1920),
}


def one_more(x, w, ends):
    return grouped.product(x, w.transpose(1, 2), ends) + 1


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups(ends, kernels):
    x, w = matrices(BF16, (ROWS, SUMMED), (4, COLUMNS, SUMMED))
    found, wanted = grouped.run(one_more, x, w, grouped.offsets(*ends))
    grouped.check(found, wanted, BF16, SUMMED)
    assert is_in_turn(kernels[-1])


def test_numbers_of_other_groups_stay_out():
    x, w = matrices(BF16, (ROWS, SUMMED), (3, SUMMED, COLUMNS))
    x[700:900], w[1] = float("nan"), float("inf")
    found, wanted = grouped.run(grouped.product, x, w, grouped.offsets(700, 900, ROWS))
    assert torch.equal(found.isnan(), wanted.isnan()) and found[700:900].isnan().all()
    assert not found[:700].isnan().any() and not found[900:].isnan().any()


CODE = {
    "layer, silu": (lambda x, w: F.silu(x @ w.t()), [(2048, 256), (2560, 256)]),
    "a batch, bias": (lambda x, w, b: F.relu(torch.bmm(x, w) + b), [(3, 1000, 256), (3, 256, 2568), (2568,)]),
    "two joined": (lambda x, w, v: F.silu(x @ w.t()) * (x @ v.t()), [(2048, 256), (1280, 256), (1280, 256)]),
    "groups": (
        lambda x, w, o: F.silu(grouped.product(x, w.transpose(1, 2), o)),
        [(2048, 256), (8, 2560, 256)],
    ),
    "groups, two joined": (
        lambda x, w, v, o: F.silu(grouped.product(x, w.transpose(1, 2), o)) * grouped.product(x, v.transpose(1, 2), o),
        [(2048, 256), (8, 1280, 256), (8, 1280, 256)],
    ),
}


@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("name", CODE)
def test_machine_code(name, programs, kernels, monkeypatch):
    """Pieces of the next tile are under way while one is stored, sums stay in registers, and no product waits for another: in a program of a
    multiprocessor, as of many steps, or in two, each with half of a tile."""
    if programs == 1:
        monkeypatch.setattr(contractions, "STEPS", 0)
    function, sizes = CODE[name]
    offsets = [grouped.offsets(*range(256, 2049, 256))] if "groups" in name else []
    module = grouped if offsets else dense
    module.run(function, *matrices(BF16, *sizes), *offsets)
    assert is_in_turn(kernels[-1])
    code = compile_kernel(kernels[-1], 90)
    told = ptxas.log(code.asm["ptx"], 90)
    assert " 0 bytes spill stores" in told and "serialized" not in told
    assert programs == max(1, kernels[-1].resident)
    assert programs * (code.metadata.shared + (1 << 10)) <= 228 << 10 and code.asm["ttgir"].count(
        "ttng.warp_group_dot "
    ) == 1 + ("joined" in name)
